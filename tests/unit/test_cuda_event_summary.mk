test_cuda_event_summary_SRCS := client/cuda_event_summary.c client/cuda_text.c client/frame_text.c client/message.c \
	profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c daemon/profile_builder.c
test_cuda_event_summary_PROTO := 1
