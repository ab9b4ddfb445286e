test_kernel_symbols_SRCS := daemon/kernel_symbols.c daemon/kallsyms.c daemon/kernel_modules.c daemon/module_places.c
