test_process_labels_SRCS := daemon/process_labels.c daemon/proc_file.c
