test_client_options_SRCS := client/only.c client/options.c client/record_options.c client/selection.c client/format.c \
	client/folded.c client/frame_text.c profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c
test_client_options_PROTO := 1
