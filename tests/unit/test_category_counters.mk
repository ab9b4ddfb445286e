test_category_counters_SRCS = $(metrics_SRCS) tests/unit/fake_engine.c daemon/profile_builder.c
test_category_counters_PROTO := 1
