test_api_SRCS = daemon/api.c daemon/api_pull.c daemon/profile_builder.c daemon/api_json.c $(metrics_SRCS) daemon/token.c \
	daemon/lease.c daemon/http_server.c daemon/listen_socket.c \
	tests/unit/fake_engine.c tests/unit/http_probe.c $(history_SRCS) $(rules_SRCS) \
	daemon/api_status.c daemon/privileges.c $(http_SRCS)
test_api_PROTO := 1
