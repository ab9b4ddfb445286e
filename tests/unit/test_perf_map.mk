test_perf_map_SRCS := daemon/perf_map.c
