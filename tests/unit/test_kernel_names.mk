test_kernel_names_SRCS := daemon/kernel_names.c daemon/demangle.c
