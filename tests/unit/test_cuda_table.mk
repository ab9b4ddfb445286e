test_cuda_table_SRCS := $(wildcard client/cuda_*.c) client/arena.c client/frame_text.c
