test_category_rules_SRCS := client/category_rules.c client/category_shipped.c client/frame_pattern.c
