test_python_code_SRCS := daemon/python_code.c daemon/python_lines.c daemon/python_layout.c
