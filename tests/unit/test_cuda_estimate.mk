test_cuda_estimate_SRCS :=
