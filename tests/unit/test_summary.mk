test_summary_SRCS := client/summary.c client/interval.c client/frame_text.c
