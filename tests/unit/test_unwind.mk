test_unwind_SRCS := daemon/table_pool.c daemon/pool_space.c tests/unit/fake_sampler.c
