/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a step spends in each of the user's phases (summary_phases.h), in the thread whose steps they are. */
#ifndef STAKEOUT_CLIENT_STEP_PHASES_H
#define STAKEOUT_CLIENT_STEP_PHASES_H

#include "client/steps/steps.h"
#include "client/summary/summary_phases.h"

/* A phase's time is what its thread waited there, as looks found it, and one period for each sample of it running. */
struct step_phase {
	const char *name, *pattern; /* the phases' */
	double ns;                  /* a whole step, on average, */
	double interval_ns;         /* within so much more or less, in 95 of 100 cases */
	double share;               /* of the steps' time, 0 … 1 */
	double p99_ns;              /* of the steps; below 0: too few samples are in one to tell */
};

/* out: of phases__count(). -ENOMEM. */
int step_phases__measure(const struct steps *steps, const struct phases *phases, struct step_phase *out);
/* Nothing without phases. -ENOMEM. */
int step_phases__print(const struct steps *steps, const struct phases *phases, FILE *out);
/* [{"name", "pattern", "ns", "interval_ns", "share", "p99_ns" (null: not known)}]. New reference; NULL: no memory. */
json_t *step_phases__json(const struct steps *steps, const struct phases *phases);

#endif
