test_sd_notify_SRCS := daemon/sd_notify.c
