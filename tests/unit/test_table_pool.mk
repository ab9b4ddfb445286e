test_table_pool_SRCS := daemon/table_pool.c daemon/pool_space.c daemon/unwind_table.c daemon/cfi_entries.c daemon/cfi_program.c \
	daemon/cfi_rules.c daemon/eh_frame.c tests/unit/fake_sampler.c
