test_cuda_registered_SRCS = $(test_elf_symbols_SRCS) daemon/kernel_names.c daemon/demangle.c
