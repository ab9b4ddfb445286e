/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What Prometheus scrapes: the daemon's state, its targets, their CUDA calls. .design/metrics.md lists all names.
 *
 * A target's series begin at 0 when it is attached and are gone when it is forgotten. Its ID is never used again while the
 * daemon runs, so no series falls but where the daemon itself starts again.
 */
#ifndef STAKEOUT_METRICS_H
#define STAKEOUT_METRICS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/engine.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_MAX_TARGETS  64
#define METRICS_MAX_APIS     40 /* of one target; further ones are added up as api="other" */
#define METRICS_BUCKETS      16 /* of an API's histogram, the one of +Inf among them */

/*
 * All of it for these targets, which the caller may see. Of more than METRICS_MAX_TARGETS the first ones, and how many were
 * left out. A target that was forgotten meanwhile is missing. *out: malloc'ed, the caller frees it. -ENOMEM.
 */
int metrics__text(struct engine *engine, const struct target_info *targets, size_t n, char **out,
		  size_t *length);

/* A target's figures, as the renderers want them. */
struct metrics_target {
	struct target_info info;
	char id[16], pid[16], comm[sizeof(((struct target_info *)0)->comm) + 1];
	json_t *stats; /* of engine__stats(), owned */
	json_t *cuda;  /* of engine__cuda(), owned; NULL: its calls are not timed */
};

/* The part that daemon/metrics_cuda.c renders: calls, errors, losses, GPUs. -ENOMEM. */
int metrics_cuda__print(const struct metrics_target *targets, size_t n, FILE *out);

#endif
