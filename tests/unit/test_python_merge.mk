test_python_merge_SRCS := daemon/python_merge.c
