test_cuda_estimate_SRCS := daemon/cuda_estimate.c daemon/cuda_names.c
