test_store_crash_SRCS = $(test_store_SRCS)
test_store_crash_PROTO := 1
