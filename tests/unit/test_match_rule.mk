test_match_rule_SRCS := daemon/match_rule.c daemon/match_proc.c daemon/proc_file.c daemon/match_table.c
