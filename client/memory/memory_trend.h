/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `stakeout memory --since` says: how much memory the history says that there was, and whether it grew. */
#ifndef STAKEOUT_CLIENT_MEMORY_TREND_H
#define STAKEOUT_CLIENT_MEMORY_TREND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/memory/growth.h"
#include "stakeout/cleanup.h"

struct trend_window {
	int64_t begin_ns, end_ns; /* since 1970-01-01 UTC */
	bool known;               /* else nothing is known of its memory */
	/* Bytes: means over the window, and the most of their sum. */
	double anonymous, file, shared, swapped, most;
};

struct memory_trend {
	long pid;
	struct trend_window *windows;       /* by their begins */
	size_t n, known;                    /* known: those of them whose memory is */
	const struct trend_window *highest; /* where the sum was most */
	double covered_s;
	struct growth growth;
};

/*
 * From the answer of GET /v1/history/KEY/memory. -EPROTO: it is none; -ENODATA: it says nothing of memory; in words;
 * -ENOMEM. To be cleared in any case; all zero is an empty one.
 */
int memory_trend__read(const json_t *answer, long pid, struct memory_trend *out, struct so_error *err);
void memory_trend__clear(struct memory_trend *trend);
CLEANUP_DEFINE_OF(struct memory_trend, memory_trend, memory_trend__clear)

void memory_trend__print(const struct memory_trend *trend, FILE *out);
/* New reference; NULL: no memory. */
json_t *memory_trend__json(const struct memory_trend *trend);

#endif
