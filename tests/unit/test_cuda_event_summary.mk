test_cuda_event_summary_SRCS := client/cuda_event_summary.c client/cuda_text.c client/frame_text.c client/message.c \
	client/profile.c client/arena.c client/gunzip.c client/id_index.c daemon/profile_builder.c
test_cuda_event_summary_PROTO := 1
