# daemon/profile_builder.c itself is included by the test, which makes its allocations fail.
test_profile_builder_SRCS := client/profile.c client/arena.c client/gunzip.c client/id_index.c
test_profile_builder_PROTO := 1
