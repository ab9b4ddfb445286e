test_folded_SRCS := client/folded.c client/frame_text.c
