# What daemon/api.c needs as well.
rules_SRCS := daemon/api_rules.c daemon/match_scan.c daemon/memory_lock.c daemon/match_table.c daemon/match_seen.c daemon/match_proc.c daemon/proc_file.c daemon/match_rule.c

test_match_scan_SRCS = daemon/match_scan.c daemon/memory_lock.c daemon/match_table.c daemon/match_seen.c daemon/match_proc.c daemon/proc_file.c daemon/match_rule.c \
	daemon/api_json.c daemon/http_server.c daemon/token.c daemon/log.c tests/unit/fake_engine.c $(history_SRCS) $(http_SRCS)
test_match_scan_PROTO := 1
