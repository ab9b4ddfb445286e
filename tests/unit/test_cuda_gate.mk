test_cuda_gate_SRCS := daemon/cuda_gate.c
