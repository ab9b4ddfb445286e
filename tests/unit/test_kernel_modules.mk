test_kernel_modules_SRCS := daemon/kernel_modules.c
