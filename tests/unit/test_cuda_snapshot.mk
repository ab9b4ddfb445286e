test_cuda_snapshot_SRCS := daemon/cuda_snapshot.c daemon/cuda_snapshot_subtract.c
