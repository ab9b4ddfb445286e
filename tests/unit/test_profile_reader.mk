test_profile_reader_SRCS := client/profile.c client/arena.c client/gunzip.c client/id_index.c
test_profile_reader_PROTO := 1
