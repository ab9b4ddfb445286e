test_http_server_SRCS := daemon/http_server.c daemon/token.c daemon/listen_socket.c tests/unit/http_probe.c
