test_proc_info_SRCS := daemon/proc_info.c daemon/proc_file.c
