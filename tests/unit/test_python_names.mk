test_python_names_SRCS := daemon/python_names.c daemon/python_code.c daemon/python_lines.c daemon/python_layout.c
