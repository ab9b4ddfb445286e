test_client_options_SRCS := client/options.c client/record_options.c client/format.c client/folded.c \
	client/frame_text.c client/arena.c
