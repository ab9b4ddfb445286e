# daemon/profile_builder.c itself is included by the test, which makes its allocations fail.
test_profile_builder_SRCS := profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c
test_profile_builder_PROTO := 1
