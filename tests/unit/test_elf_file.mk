test_elf_file_SRCS := daemon/elf_file.c daemon/proc_maps.c
