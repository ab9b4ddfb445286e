test_category_verdict_SRCS := $(addprefix profile/,category_rules.c category_shipped.c category_verdict.c frame_pattern.c)
