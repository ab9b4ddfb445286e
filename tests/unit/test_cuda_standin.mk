test_cuda_standin_SRCS :=
