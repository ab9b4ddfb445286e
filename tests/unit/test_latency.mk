test_latency_SRCS :=
