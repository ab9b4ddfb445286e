test_cuda_findings_SRCS := $(wildcard client/cuda_*.c) client/arena.c client/frame_text.c
