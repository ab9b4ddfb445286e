test_cuda_report_SRCS := $(filter-out client/cuda_event_summary.c,$(wildcard client/cuda_*.c)) client/arena.c client/frame_text.c
