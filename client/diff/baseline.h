/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A baseline: one side of a comparison in a file that is small enough for version control, with what it is of. One JSON
 * object, a row a line; its members are in .design/comparison.md.
 */
#ifndef STAKEOUT_CLIENT_DIFF_BASELINE_H
#define STAKEOUT_CLIENT_DIFF_BASELINE_H

#include <stdbool.h>
#include <stdio.h>

#include "client/diff/compare.h"
#include "client/diff/side.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/options.h"

#define BASELINE_BYTES 200000 /* at most; of what is larger the smallest rows are left out */

/* Where and how it was recorded, as far as it is known here. Texts are its own. */
struct baseline_facts {
	char *cpu, *gpu, *kernel; /* "" where there is none, or it is not known */
	unsigned cpus;
	char *version; /* of stakeout */
	char *saved;   /* when, UTC */
	char *command; /* what the user says was run; "" */
};

struct baseline {
	struct side *side;
	struct baseline_facts facts;
	enum compare_unit unit;
	bool gil, python_only;
	char *categories;                 /* the file of own rules; "" */
	struct option_texts phases, only; /* point into json */
	json_t *json;                     /* of one that was read */
};

void baseline__clear(struct baseline *baseline);
CLEANUP_DEFINE_OF(struct baseline, baseline, baseline__clear)

/* This machine, now. -ENOMEM. */
int baseline_facts__here(const char *command, struct baseline_facts *out);
void baseline_facts__clear(struct baseline_facts *facts);

/* -ENOMEM; -EFBIG: even without rows it is too large. */
int baseline__write(const struct baseline *baseline, FILE *out);
/*
 * Everything in it is checked. name: for messages. -EINVAL, in words: it is no baseline, or a damaged one; -ENOMEM.
 * *out is untouched then.
 */
int baseline__parse(const char *name, const void *bytes, size_t length, struct baseline *out, struct so_error *err);
/* The same of a file; also -EFBIG, and what reading ends with. */
int baseline__read(const char *path, struct baseline *out, struct so_error *err);
/* -EINVAL, in words: what makes a comparison of these meaningless. `now` was selected as the baseline says. */
int baseline__check(const struct baseline *baseline, const struct side *now, const struct baseline_facts *here,
		    struct so_error *err);

#endif
