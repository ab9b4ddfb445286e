/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which file a thread waits for: by its system call's descriptor or path, or by the address that faulted. */
#ifndef STAKEOUT_WAITED_FILE_H
#define STAKEOUT_WAITED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/threads_abi.h"

#define WAITED_FILE_BYTES 256

/* It takes reading the process's memory, or its map for a page fault: some 0.1 ms. */
bool waited_file__is_dear(const struct so_thread *thread);
/* Its path as the process has it or gave it, the end of a long one, into path[]; false: it waits for none. Without a lock. */
bool waited_file__path(pid_t tgid, const struct so_thread *thread, char path[WAITED_FILE_BYTES]);

#endif
