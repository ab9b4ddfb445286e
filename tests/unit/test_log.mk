test_log_SRCS := daemon/log.c
