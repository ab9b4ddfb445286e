test_interval_SRCS := client/interval.c
