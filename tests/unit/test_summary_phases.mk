test_summary_phases_SRCS := client/only.c client/summary_phases.c client/summary_table.c client/summary_names.c profile/frame_pattern.c \
	client/interval.c client/frame_text.c
