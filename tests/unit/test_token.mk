test_token_SRCS := daemon/token.c daemon/tcp_door.c
