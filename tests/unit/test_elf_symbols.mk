test_elf_symbols_SRCS := daemon/elf_symbols.c daemon/elf_symtab.c daemon/elf_names.c daemon/elf_sections.c \
	daemon/elf_dynamic.c daemon/elf_plt.c daemon/elf_file.c daemon/debug_files.c daemon/mini_debuginfo.c \
	daemon/cuda_registered.c daemon/import_calls.c daemon/call_arguments.c daemon/elf_relocations.c daemon/stack_insn.c daemon/x86_decoder.c \
	daemon/cfi_entries.c daemon/cfi_program.c daemon/cfi_rules.c daemon/eh_frame.c
