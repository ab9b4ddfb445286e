test_unwind_bounds_SRCS := daemon/table_pool.c tests/unit/fake_sampler.c
