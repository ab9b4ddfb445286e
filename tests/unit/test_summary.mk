test_summary_SRCS := client/summary.c client/summary_tables.c client/summary_names.c client/summary_table.c client/summary_lines.c client/summary_python.c \
	client/summary_categories.c client/summary_category_text.c client/summary_phases.c client/category_rules.c \
	client/category_shipped.c client/frame_pattern.c client/figures.c client/interval.c client/frame_text.c
