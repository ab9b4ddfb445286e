test_heartbeat_SRCS := daemon/heartbeat.c daemon/http_server.c daemon/token.c daemon/listen_socket.c daemon/log.c $(http_SRCS) \
	tests/unit/http_probe.c
