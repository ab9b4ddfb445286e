test_metrics_SRCS := daemon/metrics.c daemon/metrics_cuda.c daemon/metrics_text.c
