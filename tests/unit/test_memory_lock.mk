# What reads other processes' memory needs as well.
memory_lock_SRCS := daemon/memory_lock.c daemon/limits.c daemon/log.c daemon/proc_file.c

test_memory_lock_SRCS := $(memory_lock_SRCS)
