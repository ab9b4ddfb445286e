# FILE_REGISTRY_SRCS: test_file_registry.mk, which make reads before this file.
test_process_table_SRCS = daemon/process_table.c $(memory_lock_SRCS) daemon/process_scan.c daemon/mapping_runs.c $(FILE_REGISTRY_SRCS)
