test_python_layout_SRCS := daemon/python_layout.c daemon/python_debug_offsets.c
