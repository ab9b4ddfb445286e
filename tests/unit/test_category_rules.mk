test_category_rules_SRCS := profile/category_rules.c profile/category_shipped.c profile/frame_pattern.c
