test_proc_maps_SRCS := daemon/proc_maps.c
