test_python_debug_offsets_SRCS := daemon/python_debug_offsets.c daemon/python_layout.c
