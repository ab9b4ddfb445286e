test_cuda_names_SRCS := daemon/cuda_names.c
