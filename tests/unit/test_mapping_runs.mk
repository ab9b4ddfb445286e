test_mapping_runs_SRCS := daemon/mapping_runs.c
