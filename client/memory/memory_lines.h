/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory by the program's lines: what each touched first, what of it is in use, and since when. */
#ifndef STAKEOUT_CLIENT_MEMORY_LINES_H
#define STAKEOUT_CLIENT_MEMORY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "stakeout/cleanup.h"

/* Of a recording, what its last part allocated may be on its way to be freed: it is in use, but not kept. */
#define MEMORY_KEPT_SHARE 0.9

struct memory_line {
	char *text;               /* "keep (train.py:12)" */
	double allocated, in_use; /* bytes; in_use: of what was touched since the recording began */
	double kept[2];           /* of that, what was touched in its first 45 %, and in the next 45 % */
	double rate, low, high;   /* bytes a second that it keeps, and the 95 % interval of that */
	double function_rate;     /* of all lines of its function */
	uint32_t function;        /* equal of these */
};

struct memory_lines {
	struct memory_line *lines; /* those that keep most first */
	size_t n;
	double allocated, in_use, kept; /* sums */
};

/*
 * Both of one file: profile__read_value() of "inuse_space" and of "alloc_space". page_bytes: what a page that was
 * chosen is worth, at most. -ENOMEM.
 */
int memory_lines__new(const struct profile *in_use, const struct profile *allocated, double page_bytes,
		      struct memory_lines **out);
void memory_lines__free(struct memory_lines *lines);
CLEANUP_DEFINE(struct memory_lines *, memory_lines, memory_lines__free)

/* Keeps memory again and again: in both parts of the time, beyond chance. */
bool memory_line__keeps(const struct memory_line *line);
/* The frame by which a sample is reported: index of profile->lines; SIZE_MAX: it has none. */
size_t memory_line__frame(const struct profile *profile, const struct profile_sample *sample);
/* Its text, as a memory_line has it: malloc'ed. -ENOMEM. */
int memory_line__text(const struct profile *profile, const struct profile_sample *sample, char **out);

#endif
