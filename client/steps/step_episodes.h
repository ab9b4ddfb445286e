/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many steps lie between two calls of a function that begins an episode, as a simulator's reset does. */
#ifndef STAKEOUT_CLIENT_STEP_EPISODES_H
#define STAKEOUT_CLIENT_STEP_EPISODES_H

#include <jansson.h>
#include <stdio.h>

#include "client/steps/steps.h"
#include "client/steps/step_numbers.h"
#include "client/steps/steps_seen.h"

#define STEP_EPISODES_BARS 10

struct step_episodes {
	struct steps_seen resets; /* begins is owned */
	bool exact;               /* each reset was counted; else they are by samples */
	size_t n;                 /* whole ones: from one reset to the next */
	size_t *lengths;          /* in steps, ascending; owned */
	struct step_mean steps;
	size_t bar; /* steps that one bar of the histogram is wide */
	size_t histogram[STEP_EPISODES_BARS];
};

/*
 * place: of a counted function (steps_counted.h) its calls, else as of steps_seen__find(). -ENODATA: less than two
 * resets were seen, in words; -EINVAL; -ENOMEM.
 */
int step_episodes__measure(const struct steps *steps, const char *place, struct step_episodes *out,
			   struct so_error *err);
void step_episodes__clear(struct step_episodes *episodes);

void step_episodes__print(const struct step_episodes *episodes, FILE *out);
/* New reference; NULL: no memory. */
json_t *step_episodes__json(const struct step_episodes *episodes);

#endif
