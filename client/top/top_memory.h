/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much memory of their own processes have, and whether that grows: by /proc, as often as it is asked. */
#ifndef STAKEOUT_CLIENT_TOP_MEMORY_H
#define STAKEOUT_CLIENT_TOP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/top/top_sums.h"
#include "stakeout/cleanup.h"

#define TOP_MEMORY_READINGS 60 /* of a process, the latest */

struct top_memory_process {
	int64_t pid;
	struct {
		double at_s, own;        /* when, and bytes */
	} readings[TOP_MEMORY_READINGS]; /* the oldest first */
	size_t n;
	double own;      /* RssAnon and VmSwap, bytes */
	bool rate_known; /* there are enough of them */
	double rate;     /* bytes a second; 0 where growth cannot be told from chance */
	bool seen;       /* by the last top_memory__take() */
};

/* All zero is an empty one. */
struct top_memory {
	struct top_memory_process *list;
	size_t n, capacity;
};

/*
 * Reads of each process that has threads in these sums, and forgets the others, and those that have ended. now_s: by
 * whatever clock. -ENOMEM.
 */
int top_memory__take(struct top_memory *memory, const struct top_sums *sums, double now_s);
/* Of one process; where it had so much at that time. -ENOMEM. */
int top_memory__add(struct top_memory *memory, int64_t pid, double own_bytes, double now_s);
/* NULL: not known. */
const struct top_memory_process *top_memory__find(const struct top_memory *memory, int64_t pid);
void top_memory__clear(struct top_memory *memory);
CLEANUP_DEFINE_OF(struct top_memory, top_memory, top_memory__clear)

#endif
