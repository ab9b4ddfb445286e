/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The steps of a program in a profile that keeps times (`stakeout record --timeline --step FUNCTION`): how long they
 * took, and what the slowest did that others did not. A step lasts from one entry of its function to the next one.
 */
#ifndef STAKEOUT_CLIENT_STEPS_H
#define STAKEOUT_CLIENT_STEPS_H

#include <jansson.h>
#include <stdio.h>

#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define STEPS_SLOWEST   5   /* are told one by one, */
#define STEPS_COMPARED  200 /* and so many, where they took more than twice the median, by what they did */
#define STEPS_HISTOGRAM 11  /* ten of equal width up to the 99th percentile, and what is beyond */

struct steps;

/*
 * profile: borrowed, and to stay. place: NULL, or where steps begin by samples (steps_seen.h), whatever the profile
 * says of them. -ENODATA: it has no steps, or less than two; -ENOMEM; of place also -EINVAL.
 */
int steps__of(const struct profile *profile, const char *place, struct steps **out, struct so_error *err);
void steps__free(struct steps *steps);
CLEANUP_DEFINE(struct steps *, steps, steps__free)

/* A quantile of the durations with its 95 % interval, by the ranks between which it lies (binomial), in nanoseconds. */
struct steps_quantile {
	double q;
	int64_t ns, low_ns, high_ns;
};

void steps__print(const struct steps *steps, FILE *out);
/* .design/steps.md. New reference; NULL: no memory. */
json_t *steps__json(const struct steps *steps);

#endif
