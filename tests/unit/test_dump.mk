test_dump_SRCS := client/dump_text.c profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c \
	daemon/profile_builder.c
test_dump_PROTO := 1
