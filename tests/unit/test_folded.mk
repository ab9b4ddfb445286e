test_folded_SRCS := client/only.c client/folded.c client/frame_text.c
