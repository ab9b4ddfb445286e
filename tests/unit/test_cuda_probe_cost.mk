test_cuda_probe_cost_SRCS := daemon/cuda_probe_cost.c
