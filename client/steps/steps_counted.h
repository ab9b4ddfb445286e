/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions whose calls were counted, each with its time (`stakeout steps --count`): how often a step calls them. */
#ifndef STAKEOUT_CLIENT_STEPS_COUNTED_H
#define STAKEOUT_CLIENT_STEPS_COUNTED_H

#include <jansson.h>
#include <stdio.h>

#include "client/steps/steps.h"

/* When the threads of the steps' process entered a function: ns since the profile's begin, ascending; the caller's. */
struct steps_entries {
	int64_t *ns;
	size_t n;
};

/* name: as it was asked for. -ENOENT: it was not counted; -ENOMEM. */
int steps_counted__find(const struct steps *steps, const char *name, struct steps_entries *out);

/* Of each counted function how often a whole step calls it. Nothing where there is none. -ENOMEM. */
int steps_counted__print(const struct steps *steps, FILE *out);
/*
 * [{"name", "calls", "share" (of all counted calls), "a_second", "a_step", "interval" (95 %: a_step +- so much), "p50",
 * "p99", "max" (calls in one step)}]. New reference; NULL: no memory.
 */
json_t *steps_counted__json(const struct steps *steps);

#endif
