test_unwind_plt_SRCS := daemon/unwind_table.c daemon/cfi_entries.c daemon/cfi_program.c daemon/cfi_rules.c daemon/eh_frame.c
