test_cuda_report_SRCS := $(wildcard client/cuda_*.c) client/arena.c client/frame_text.c
