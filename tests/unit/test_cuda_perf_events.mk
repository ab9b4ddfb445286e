test_cuda_perf_events_SRCS := daemon/cuda_perf_events.c
