test_kallsyms_SRCS := daemon/kallsyms.c
