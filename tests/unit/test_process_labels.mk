test_process_labels_SRCS := daemon/process_labels.c
