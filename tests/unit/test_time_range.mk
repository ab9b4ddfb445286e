test_time_range_SRCS := client/time_range.c
