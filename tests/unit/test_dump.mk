test_dump_SRCS := client/dump_text.c client/profile.c client/arena.c client/gunzip.c client/id_index.c \
	daemon/profile_builder.c
test_dump_PROTO := 1
