test_cuda_lines_SRCS := daemon/cuda_lines.c
