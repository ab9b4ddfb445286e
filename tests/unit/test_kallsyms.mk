test_kallsyms_SRCS := daemon/kallsyms.c daemon/kernel_modules.c
