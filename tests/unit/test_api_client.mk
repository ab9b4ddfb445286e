test_api_client_SRCS = client/api_client.c client/target.c client/message.c client/session.c \
	client/private_daemon.c client/interrupt.c daemon/api.c daemon/api_pull.c daemon/profile_builder.c daemon/api_json.c $(metrics_SRCS) daemon/token.c \
	daemon/lease.c \
	daemon/http_server.c daemon/listen_socket.c tests/unit/fake_engine.c tests/unit/http_probe.c \
	daemon/api_status.c daemon/privileges.c $(http_SRCS) $(history_SRCS) $(rules_SRCS)
test_api_client_PROTO := 1
