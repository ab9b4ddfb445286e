/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who calls a function, as samples show it: the actions of a simulator, where one function carries them all out. An
 * arrival is seen when a thread comes to the function from elsewhere or from another caller: of calls in a row from one
 * caller the first, and not what is shorter than the time between two samples. So the share of the time is beside it.
 */
#ifndef STAKEOUT_CLIENT_STEP_CALLERS_H
#define STAKEOUT_CLIENT_STEP_CALLERS_H

#include <jansson.h>
#include <stdio.h>

#include "client/steps/steps.h"

struct step_callers;

/* place: as of steps_seen__find(). -ENODATA: no sample shows the function, in words; -EINVAL; -ENOMEM. */
int step_callers__of(const struct steps *steps, const char *place, struct step_callers **out, struct so_error *err);
void step_callers__free(struct step_callers *callers);
CLEANUP_DEFINE(struct step_callers *, step_callers, step_callers__free)

void step_callers__print(const struct step_callers *callers, FILE *out);
/*
 * {"where", "arrivals", "ns" (in it, of all threads), "callers": [{"caller", "arrivals", "a_step", "share" (of the
 * time), "interval" (95 %: share +- so much)}]}, the one with most time first. New reference; NULL: no memory.
 */
json_t *step_callers__json(const struct step_callers *callers);

#endif
