test_fd_closer_SRCS := daemon/fd_closer.c
