test_summary_categories_SRCS := client/only.c client/summary_table.c client/summary_names.c client/summary_categories.c \
	client/summary_category_text.c profile/category_rules.c profile/category_verdict.c profile/category_shipped.c profile/frame_pattern.c client/interval.c \
	client/frame_text.c
