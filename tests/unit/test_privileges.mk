test_privileges_SRCS := daemon/privileges.c
