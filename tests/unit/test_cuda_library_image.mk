test_cuda_library_image_SRCS := daemon/cuda_library.c daemon/cuda_names.c daemon/probe_site.c daemon/x86_decoder.c daemon/elf_file.c \
	daemon/elf_symtab.c daemon/elf_sections.c daemon/elf_dynamic.c
