/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What Prometheus scrapes: the daemon's state, its targets, their CUDA calls. .design/metrics.md lists all names.
 *
 * A target's series begin at 0 when it is attached and are gone when it is forgotten. Its ID is never used again while
 * the daemon runs, so no series falls but where the daemon itself starts again.
 */
#ifndef STAKEOUT_METRICS_H
#define STAKEOUT_METRICS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/metrics/category_counters.h"
#include "daemon/engine/engine.h"
#include "daemon/rules/match_table.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_MAX_TARGETS  64
#define METRICS_MAX_APIS     40 /* of one target; further ones are added up as api="other" */
#define METRICS_BUCKETS      16 /* of an API's histogram, the one of +Inf among them */

/* What is reported beyond the engine's own figures; all zero is nothing. */
struct metrics_more {
	struct category_counters *categories; /* NULL: not counted */
	const struct match_rule_info *rules;  /* that the caller may see */
	size_t n_rules;
	bool has_rules; /* the daemon has such things at all */
};

/*
 * All of it for these targets, which the caller may see. Of more than METRICS_MAX_TARGETS the first ones, and how many
 * were left out. A target that was forgotten meanwhile is missing. *out: malloc'ed, the caller frees it. -ENOMEM.
 */
int metrics__text(struct engine *engine, const struct target_info *targets, size_t n, const struct metrics_more *more,
		  char **out, size_t *length);

/* A target's figures, as the renderers want them. */
struct metrics_target {
	struct target_info info;
	char id[16], pid[16], comm[sizeof(((struct target_info *)0)->comm) + 1];
	json_t *stats; /* of engine__stats(), owned */
	json_t *cuda;  /* of engine__cuda(), owned; NULL: its calls are not timed */
};

/* The part that daemon/metrics/metrics_categories.c renders: CPU time by category, of targets that have counters. */
void metrics_categories__print(struct category_counters *counters, const struct metrics_target *targets, size_t n,
			       FILE *out);
/* The part that daemon/metrics/metrics_labels.c renders: what is known of targets in words, and the rules. */
void metrics_labels__print(const struct metrics_target *targets, size_t n, FILE *out);
void metrics_labels__print_rules(const struct match_rule_info *rules, size_t n, FILE *out);

/* The part that daemon/metrics/metrics_cuda.c renders: calls, errors, losses, GPUs. -ENOMEM. */
int metrics_cuda__print(const struct metrics_target *targets, size_t n, FILE *out);

#endif
