test_clock_periods_SRCS := daemon/clock_periods.c
