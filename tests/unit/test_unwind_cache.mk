test_unwind_cache_SRCS := daemon/unwind_cache.c daemon/unwind_cache_file.c daemon/unwind_table.c daemon/cfi_entries.c daemon/cfi_program.c daemon/cfi_rules.c daemon/eh_frame.c
