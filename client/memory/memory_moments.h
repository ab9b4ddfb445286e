/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two moments of a program's memory: what each line has in use at the second that it had not at the first. */
#ifndef STAKEOUT_CLIENT_MEMORY_MOMENTS_H
#define STAKEOUT_CLIENT_MEMORY_MOMENTS_H

#include <jansson.h>
#include <stdio.h>

#include "client/memory/memory_lines.h"

/*
 * Bytes in use, and by how much they changed, with the 95 % interval: of sampled pages, as if both moments were
 * sampled apart from each other. Of two moments of one attach, which have pages in common, it is wider than need be.
 */
struct moment_line {
	const char *text; /* the lines' own; NULL: of all lines together */
	double before, now, change, low, high;
};

struct memory_moments {
	struct moment_line all;
	struct moment_line *lines; /* those that changed most first */
	size_t n;
};

/*
 * page_bytes: what a sampled page is worth, at most; 0: the bytes are exact. The lines are borrowed: they are to live
 * longer. -ENOMEM. To be cleared in any case.
 */
int memory_moments__compare(const struct memory_lines *before, double before_page_bytes, const struct memory_lines *now,
			    double now_page_bytes, struct memory_moments *out);
void memory_moments__clear(struct memory_moments *moments);
CLEANUP_DEFINE_OF(struct memory_moments, memory_moments, memory_moments__clear)

/* top: rows of the table. */
void memory_moments__print(const struct memory_moments *moments, unsigned top, FILE *out);
/* New reference; NULL: no memory. */
json_t *memory_moments__json(const struct memory_moments *moments);

#endif
