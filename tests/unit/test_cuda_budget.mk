test_cuda_budget_SRCS := daemon/cuda_budget.c
