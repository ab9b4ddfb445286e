test_python_functions_SRCS := daemon/python_functions.c
