PYTHON_IMAGE_SRCS := daemon/python_image.c daemon/python_layout.c daemon/python_debug_offsets.c daemon/python_symbols.c \
	daemon/python_version.c daemon/elf_file.c daemon/elf_sections.c daemon/elf_symtab.c daemon/debug_files.c \
	daemon/mini_debuginfo.c
test_python_image_SRCS := $(PYTHON_IMAGE_SRCS) daemon/proc_maps.c
