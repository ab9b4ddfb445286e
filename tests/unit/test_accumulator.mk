test_accumulator_SRCS := daemon/accumulator.c daemon/python_functions.c
