test_api_schema_SRCS = daemon/api_schema.c daemon/api_status.c daemon/privileges.c $(http_SRCS) daemon/api.c daemon/api_pull.c daemon/profile_builder.c daemon/api_json.c \
	$(metrics_SRCS) daemon/token.c daemon/lease.c daemon/http_server.c \
	tests/unit/fake_engine.c $(history_SRCS) $(rules_SRCS)
test_api_schema_PROTO := 1
