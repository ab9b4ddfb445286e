test_limits_SRCS := daemon/limits.c
