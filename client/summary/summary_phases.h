/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The user's phases: NAME=PATTERN is the time under any frame that matches. Phases may overlap and hold each other. */
#ifndef STAKEOUT_CLIENT_SUMMARY_PHASES_H
#define STAKEOUT_CLIENT_SUMMARY_PHASES_H

#include <stdio.h>

#include "client/summary/summary_names.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define PHASES_MAX           16
#define PHASE_MAX_NAME_BYTES 60
#define PHASE_FUNCTIONS      5
#define PHASE_HINTS          3

struct phases;

/*
 * words: "NAME=PATTERN", n of them. A pattern as in frame_pattern.h; it may contain '='. -EINVAL, in words: not of this
 * form, a name that occurs twice or has control characters, more than PHASES_MAX.
 */
int phases__new(const char *const *words, size_t n, struct phases **out, struct so_error *err);
void phases__free(struct phases *phases);
CLEANUP_DEFINE(struct phases *, phases, phases__free)
size_t phases__count(const struct phases *phases);
const char *phases__name(const struct phases *phases, size_t i);
const char *phases__pattern(const struct phases *phases, size_t i);
/* By line of the profile: does its function match phase i? The caller's; NULL: no memory. */
bool *phases__lines(const struct phases *phases, size_t i, const struct profile *profile);

struct phase_result {
	const char *name, *pattern;
	struct share share;
	/* Functions that match in some sample, those with most samples first; a sample counts for its outermost one. */
	struct {
		uint32_t name; /* in the names given */
		struct share share;
	} functions[PHASE_FUNCTIONS];
	size_t n_functions;          /* of the above */
	size_t n_matched;            /* all functions that match, in samples of the scope */
	uint32_t hints[PHASE_HINTS]; /* functions with similar names; only where nothing matched */
	size_t n_hints;
};

/* Phase i. functions: names of the scope. -ENOMEM. */
int phases__measure(const struct phases *phases, size_t i, const struct scope *scope, const struct names *functions,
		    struct phase_result *out);
/* All of them as a table; nothing without phases. -ENOMEM. */
int phases__print(const struct phases *phases, const struct scope *scope, const struct names *functions, FILE *out);

#endif
