/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For steps.c, which takes the steps apart, and steps_text.c, which says it. */
#ifndef STAKEOUT_CLIENT_STEPS_INTERNAL_H
#define STAKEOUT_CLIENT_STEPS_INTERNAL_H

#include "client/steps/steps.h"
#include "stakeout/intern.h"

#define STEPS_QUANTILES 4
#define STEPS_DOINGS    3 /* that are told of a slow step */

/* What a thread did in a step. */
struct step_doing {
	uint32_t what; /* of steps.doings */
	double ns;     /* more than in a typical step */
};

struct slow_step {
	size_t number; /* from 0 */
	int64_t ns;
	struct step_doing more[STEPS_DOINGS]; /* most first */
	size_t n_more;
};

struct steps {
	const struct profile *profile;
	int64_t pid, tid;
	int64_t *begins;  /* of n_all + 1: the last is where the last step ends */
	int64_t *ns;      /* durations */
	int64_t *sorted;  /* of whole ones */
	size_t n;         /* whole steps */
	size_t n_all;     /* one more, where at the profile's end one is under way for longer than any took */
	unsigned threads; /* that have steps; these are of the one with most */
	struct steps_quantile quantiles[STEPS_QUANTILES];
	size_t histogram[STEPS_HISTOGRAM];
	double bin_ns;
	int64_t first_ns, last_ns; /* medians of the first and the last fifth; 0: too few */
	bool seen;                 /* by samples: */
	size_t n_brief;
	int64_t unsure_ns;
	char where[512];                       /* all as in steps_seen.h */
	struct intern doings;                  /* "sleep in slow_read (loop.c:8)" */
	struct slow_step slow[STEPS_COMPARED]; /* the slowest first */
	size_t n_slow;
	size_t n_twice; /* steps of more than twice the median, compared or not */
};

/* Whether it is of the steps' process, of a known time, and no thread of a pool that has no work. */
bool steps__takes(const struct steps *steps, const struct profile_sample *sample);
/* Calls `take` for each step in which the sample was, with its time in it; ran: profile_sample__is_moment(). */
typedef void steps_take(void *context, size_t step, double ns, bool ran);
void steps__divide(const struct steps *steps, const struct profile_sample *sample, steps_take *take, void *context);

#define STEPS_CAUSES 5

/* What slow steps did for longer than others, most of all. */
struct step_cause {
	uint32_t what; /* UINT32_MAX: not seen */
	size_t steps;
	double lost_ns; /* what they took beyond the median */
};

/* Of the steps that took more than twice the median; the one that cost most first. Returns how many there are. */
size_t steps__causes(const struct steps *steps, struct step_cause out[STEPS_CAUSES]);

#endif
