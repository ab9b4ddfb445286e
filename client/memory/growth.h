/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a process's memory grew, by how much, and how surely: from what was resident over time. */
#ifndef STAKEOUT_CLIENT_GROWTH_H
#define STAKEOUT_CLIENT_GROWTH_H

#include <stddef.h>

#include "stakeout/error.h"

enum growth_verdict {
	GROWTH_UNKNOWN, /* too short a time, or too few points */
	GROWTH_NONE,    /* none that could be told from chance */
	GROWTH_ONCE,    /* it grew, but not in both halves of the time: what a program needs once */
	GROWTH_STEADY,
	GROWTH_SHRINKS,
};

#define GROWTH_LEAST_POINTS 8
/* Less than this is no growth, bytes: what an allocator takes at a time. */
#define GROWTH_LEAST_BYTES 262144.0

/* One kind of memory, over the time. */
struct growth_kind {
	double first, last;     /* bytes */
	double rate, low, high; /* its slope, bytes a second, and the 95 % interval of that */
	double early, late;     /* the slopes of the first and the second half */
	double later_range;     /* what the second half's twentieths differ by, bytes */
	enum growth_verdict verdict;
};

struct growth {
	size_t points;
	double seconds;
	struct growth_kind own;    /* anonymous memory with what is swapped out */
	struct growth_kind files;  /* pages of files that are mapped: the page cache's */
	struct growth_kind shared; /* shared memory, of each process that maps it */
};

/*
 * series: "MS:ANON:FILE:SHARED:SWAP,…", KiB, as the daemon has it in the comment memory.series. -EINVAL, in words: it
 * is something else; -ENOMEM.
 */
int growth__read(const char *series, struct growth *out, struct so_error *err);
/* "growing", "not growing", … */
const char *growth__word(enum growth_verdict verdict);

#endif
