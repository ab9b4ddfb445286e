test_cuda_rows_SRCS := daemon/cuda_rows.c daemon/cuda_names.c daemon/cuda_snapshot.c daemon/api_json.c
