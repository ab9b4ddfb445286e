test_config_file_SRCS := daemon/config_file.c daemon/options.c daemon/units.c daemon/match_rule.c
