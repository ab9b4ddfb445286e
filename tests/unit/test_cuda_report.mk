test_cuda_report_SRCS := $(filter-out client/cuda_event_summary.c,$(wildcard client/cuda_*.c)) profile/arena.c client/frame_text.c
