test_cuda_progress_SRCS := daemon/cuda_progress.c
