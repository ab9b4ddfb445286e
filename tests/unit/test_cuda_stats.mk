test_cuda_stats_SRCS := client/cuda_stats.c
