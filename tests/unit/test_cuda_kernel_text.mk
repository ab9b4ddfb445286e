test_cuda_kernel_text_SRCS := client/cuda_kernel_text.c client/cuda_text.c
