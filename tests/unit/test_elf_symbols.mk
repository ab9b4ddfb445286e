test_elf_symbols_SRCS := daemon/elf_symbols.c daemon/elf_symtab.c daemon/elf_names.c daemon/elf_sections.c \
	daemon/elf_dynamic.c daemon/elf_plt.c daemon/elf_file.c daemon/debug_files.c daemon/mini_debuginfo.c
