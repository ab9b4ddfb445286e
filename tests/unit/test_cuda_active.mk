test_cuda_active_SRCS := daemon/cuda_active.c
