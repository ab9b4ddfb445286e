test_python_code_live_SRCS := daemon/python_code.c daemon/python_lines.c daemon/python_layout.c daemon/python_debug_offsets.c
