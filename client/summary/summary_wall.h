/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a profile in wall time says beyond where the time went: who ran, who waited, for what, and in whose line. */
#ifndef STAKEOUT_CLIENT_SUMMARY_WALL_H
#define STAKEOUT_CLIENT_SUMMARY_WALL_H

#include <jansson.h>
#include <stdio.h>

#include "client/summary/summary_names.h"

struct summary_wall;

/* NULL in *out: the profile is none in wall time. -ENOMEM. */
int summary_wall__new(const struct scope *scope, struct summary_wall **out);
void summary_wall__free(struct summary_wall *wall);
CLEANUP_DEFINE(struct summary_wall *, summary_wall, summary_wall__free)

/* Nothing where wall is NULL. */
void summary_wall__print(const struct summary_wall *wall, FILE *out);
/* {"states", "threads", "waits", "gil_holders"} (.design/summary.md); null where wall is NULL. New reference. */
json_t *summary_wall__json(const struct summary_wall *wall);

#endif
