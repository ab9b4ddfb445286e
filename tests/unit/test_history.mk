# What daemon/api.c needs as well.
history_SRCS := daemon/api_history.c daemon/history.c daemon/proc_info.c daemon/proc_file.c daemon/history_read.c daemon/store.c daemon/store_blob.c \
	daemon/store_clock.c daemon/store_compact.c daemon/store_list.c daemon/store_maintain.c daemon/store_read.c daemon/store_retain.c \
	daemon/store_schema.c daemon/store_sql.c daemon/store_write.c daemon/profile_merge.c daemon/profile_merge_pack.c \
	daemon/message_memory.c daemon/cuda_estimate.c daemon/cuda_line_totals.c daemon/cuda_merge.c daemon/cuda_merge_reading.c daemon/cuda_merge_rows.c daemon/cuda_merge_write.c daemon/cuda_names.c daemon/log.c

test_history_SRCS := $(history_SRCS) daemon/api_json.c daemon/http_server.c $(http_SRCS) daemon/token.c tests/unit/fake_engine.c profile/profile.c \
	profile/arena.c profile/gunzip.c profile/id_index.c
test_history_PROTO := 1
