test_http_server_SRCS := daemon/http_server.c $(http_SRCS) daemon/log.c daemon/token.c daemon/listen_socket.c tests/unit/http_probe.c
