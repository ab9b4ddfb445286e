test_cuda_line_totals_SRCS := daemon/cuda_line_totals.c
