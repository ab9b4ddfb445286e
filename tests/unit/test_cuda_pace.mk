test_cuda_pace_SRCS := daemon/cuda_pace.c
