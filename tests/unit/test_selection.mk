test_selection_SRCS := client/only.c client/selection.c profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c
test_selection_PROTO := 1
