test_summary_SRCS := client/summary.c client/summary_table.c client/summary_python.c client/figures.c \
	client/interval.c client/frame_text.c
