test_selection_SRCS := client/selection.c client/profile.c client/arena.c client/gunzip.c client/id_index.c
test_selection_PROTO := 1
