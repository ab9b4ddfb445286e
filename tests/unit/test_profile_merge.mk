test_profile_merge_SRCS := daemon/profile_merge.c daemon/profile_merge_pack.c daemon/message_memory.c daemon/profile_builder.c daemon/store_blob.c profile/profile.c profile/arena.c profile/gunzip.c profile/id_index.c
test_profile_merge_PROTO := 1
