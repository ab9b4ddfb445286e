test_profile_reader_SRCS := profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c
test_profile_reader_PROTO := 1
