test_cuda_line_values_SRCS := daemon/cuda_line_values.c
