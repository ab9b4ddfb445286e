test_profile_merge_SRCS := daemon/profile_merge.c daemon/profile_merge_pack.c daemon/message_memory.c daemon/profile_builder.c daemon/store_blob.c client/profile.c client/arena.c client/gunzip.c client/id_index.c
test_profile_merge_PROTO := 1
