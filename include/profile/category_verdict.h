/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * To which category a sample belongs: to the innermost activity on its stack, without one to the first mechanism in the
 * rules' order, without one to what its leaf is. .design/summary.md has the reasons.
 *
 * Categories are numbered as in the rules; those of CATEGORY_LEFTOVER_LIST follow.
 */
#ifndef STAKEOUT_PROFILE_CATEGORY_VERDICT_H
#define STAKEOUT_PROFILE_CATEGORY_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "profile/category_rules.h"
#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/intern.h"

/* Rules and leftovers. */
size_t category_verdict__count(const struct category_rules *rules);
const char *category_verdict__name(const struct category_rules *rules, size_t category);

#define CATEGORY_MEMORY_MAX_FUNCTIONS 65536
#define CATEGORY_MEMORY_MAX_BYTES     (16u << 20) /* of names; beyond either bound all is forgotten */

/* What one set of rules said of functions, so that successive profiles ask once for each. All zero is an empty one. */
struct category_memory {
	struct intern functions;
	struct category_ranks *ranks; /* by number of the function */
	size_t capacity;
	uint64_t asked; /* how often the rules had to be asked */
};

void category_memory__clear(struct category_memory *memory);
CLEANUP_DEFINE(struct category_memory *, category_memory, category_memory__clear)

/* The rules' answers for a profile's lines. All zero is an empty one. */
struct category_lines {
	const struct category_rules *rules; /* both the caller's, must live longer */
	const struct profile *profile;
	struct category_ranks *ranks;
	uint32_t *ranks_of_line; /* lines of one function have one */
};

/* memory: NULL for none. -ENOMEM; *out is to be cleared then as well. */
int category_lines__match(const struct category_rules *rules, const struct profile *profile,
			  struct category_memory *memory, struct category_lines *out);
void category_lines__clear(struct category_lines *lines);
CLEANUP_DEFINE(struct category_lines *, category_lines, category_lines__clear)

/* What the rules say of a sample's frame, 0 being the leaf. */
static inline const struct category_ranks *category_lines__ranks(const struct category_lines *lines,
								 const struct profile_sample *sample, size_t frame)
{
	return &lines->ranks[lines->ranks_of_line[sample->lines[frame]]];
}

struct category_verdict {
	size_t category;
	size_t means; /* its mechanism, or what its leaf is, as a leftover */
	size_t frame; /* the innermost one of its activity; n_lines without an activity */
};

/* sample: of the profile. */
struct category_verdict category_lines__judge(const struct category_lines *lines, const struct profile_sample *sample);

#endif
