# What daemon/api.c needs as well.
metrics_SRCS := daemon/metrics.c daemon/metrics_categories.c daemon/metrics_cuda.c daemon/metrics_labels.c \
	daemon/metrics_text.c daemon/category_counters.c daemon/category_windows.c daemon/log.c \
	$(addprefix profile/,profile.c arena.c gunzip.c id_index.c category_rules.c category_shipped.c category_verdict.c frame_pattern.c)

test_metrics_SRCS := $(metrics_SRCS) daemon/profile_builder.c
test_metrics_PROTO := 1
