test_summary_json_SRCS := client/only.c client/summary_json.c client/summary.c client/summary_tables.c client/summary_names.c client/summary_table.c client/summary_lines.c client/summary_python.c \
	client/summary_categories.c client/summary_category_text.c client/summary_phases.c profile/category_rules.c profile/category_verdict.c \
	profile/category_shipped.c profile/frame_pattern.c client/figures.c client/interval.c client/frame_text.c
