test_u64_table_SRCS :=
