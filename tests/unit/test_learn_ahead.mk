test_learn_ahead_SRCS := daemon/learn_ahead.c
