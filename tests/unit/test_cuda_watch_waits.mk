test_cuda_watch_waits_SRCS := $(test_cuda_watch_SRCS)
