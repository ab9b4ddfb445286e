/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pages of a process are in use still, resident or swapped out: by /proc/PID/pagemap, in a bounded call. */
#ifndef STAKEOUT_RESIDENT_PAGES_H
#define STAKEOUT_RESIDENT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * pages: n of them (address / 4096), in order. in_use[i]: whether it is anonymous memory that is there. A process that
 * has gone has none. -EBUSY, -EINPROGRESS: it cannot be read now (bounded_call.h); -errno: of reading. Thread-safe,
 * with no lock held.
 */
int resident_pages__look(pid_t pid, const uint64_t *pages, size_t n, bool *in_use);
/* An entry of pagemap. */
bool resident_pages__entry_in_use(uint64_t entry);

#endif
