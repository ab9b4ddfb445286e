test_cuda_merge_SRCS := daemon/cuda_estimate.c daemon/cuda_line_totals.c daemon/cuda_merge.c daemon/cuda_merge_reading.c daemon/cuda_merge_rows.c daemon/cuda_merge_write.c daemon/cuda_names.c daemon/cuda_rows.c daemon/cuda_snapshot.c \
	daemon/cuda_snapshot_subtract.c daemon/api_json.c \
	$(filter-out client/cuda_event_summary.c,$(wildcard client/cuda_*.c)) profile/arena.c client/frame_text.c
