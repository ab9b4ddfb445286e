test_python_storage_SRCS := daemon/python_storage.c daemon/python_layout.c
