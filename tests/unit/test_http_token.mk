test_http_token_SRCS := daemon/http_server.c $(http_SRCS) daemon/log.c daemon/token.c daemon/tcp_door.c tests/unit/http_probe.c
