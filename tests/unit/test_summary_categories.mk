test_summary_categories_SRCS := client/summary_table.c client/summary_names.c client/summary_categories.c \
	client/summary_category_text.c client/category_rules.c client/category_shipped.c client/frame_pattern.c client/interval.c \
	client/frame_text.c
