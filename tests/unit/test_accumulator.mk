test_accumulator_SRCS := daemon/accumulator.c
