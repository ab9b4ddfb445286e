test_cuda_threads_SRCS := daemon/cuda_threads.c
