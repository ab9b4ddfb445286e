PYTHON_IMAGE_SRCS := daemon/python_image.c daemon/python_layout.c daemon/python_debug_offsets.c daemon/python_symbols.c \
	daemon/python_version.c daemon/elf_file.c daemon/elf_sections.c daemon/elf_symtab.c daemon/debug_files.c \
	daemon/mini_debuginfo.c daemon/elf_dynamic.c daemon/function_parts.c daemon/eh_frame.c daemon/cfi_entries.c daemon/cfi_program.c \
	daemon/stack_insn.c daemon/x86_decoder.c
test_python_image_SRCS := $(PYTHON_IMAGE_SRCS) daemon/proc_maps.c
