test_cuda_kinds_SRCS := daemon/cuda_kinds.c
