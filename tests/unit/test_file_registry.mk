FILE_REGISTRY_SRCS := daemon/file_registry.c daemon/file_retire.c daemon/table_pool.c daemon/pool_space.c daemon/proc_maps.c daemon/elf_file.c \
	daemon/unwind_table.c daemon/cfi_entries.c daemon/cfi_program.c daemon/cfi_rules.c daemon/eh_frame.c \
	daemon/unwind_cache.c daemon/unwind_cache_file.c daemon/elf_symbols.c daemon/elf_symtab.c daemon/elf_names.c \
	daemon/elf_sections.c daemon/elf_dynamic.c daemon/elf_plt.c daemon/debug_files.c daemon/mini_debuginfo.c \
	daemon/learned_code.c daemon/python_image.c daemon/python_symbols.c daemon/python_version.c \
	daemon/python_debug_offsets.c daemon/python_layout.c daemon/function_parts.c daemon/source_lines.c daemon/helper_process.c daemon/log.c $(wildcard daemon/stack_*.c) daemon/x86_decoder.c tests/unit/fake_sampler.c \
	daemon/cuda_registered.c daemon/import_calls.c daemon/call_arguments.c daemon/elf_relocations.c
test_file_registry_SRCS := $(FILE_REGISTRY_SRCS)
