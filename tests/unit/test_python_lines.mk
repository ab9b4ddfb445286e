test_python_lines_SRCS := daemon/python_lines.c
