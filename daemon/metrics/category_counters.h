/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CPU time of targets by category (include/profile/category_verdict.h), for /metrics: counters that profiles of their
 * windows are added to. A target's counters add up to the CPU time of all samples in those profiles (samples times
 * sampling period).
 *
 * All functions are thread-safe, category_counters__free() excepted.
 */
#ifndef STAKEOUT_CATEGORY_COUNTERS_H
#define STAKEOUT_CATEGORY_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "profile/category_rules.h"
#include "profile/wall_states.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define CATEGORY_COUNTERS_MAX   64      /* categories; further ones of the rules are added up as the last one */
#define CATEGORY_COUNTERS_OTHER "other" /* how that one is called */

struct category_counters;

/* engine: to tell which targets are gone. Both the caller's, must live longer. -ENOMEM. */
int category_counters__new(struct engine *engine, const struct category_rules *rules, struct category_counters **out);
void category_counters__free(struct category_counters *counters);
CLEANUP_DEFINE(struct category_counters *, category_counters, category_counters__free)

/* At most CATEGORY_COUNTERS_MAX. Each name once, UTF-8 in one line. */
size_t category_counters__count(const struct category_counters *counters);
const char *category_counters__name(const struct category_counters *counters, size_t category);

/* The target has counters from now on, all 0; nothing where it has. -ENOSPC: ENGINE_MAX_TARGETS that live have. */
int category_counters__begin(struct category_counters *counters, uint32_t id);
/*
 * Adds a profile, as engine__window() gives it, of a target that has begun: all of it or nothing. Errors as
 * profile__read()'s.
 */
int category_counters__add(struct category_counters *counters, uint32_t id, const void *profile, size_t length,
			   struct so_error *err);

/* What profiles add up to. In wall time each sample is in one category as well. */
struct category_sums {
	int64_t cpu_ns[CATEGORY_COUNTERS_MAX];
	bool wall; /* one of them was in wall time; else the next two are 0 */
	int64_t wall_ns[CATEGORY_COUNTERS_MAX];
	int64_t state_ns[WALL_STATE_COUNT];
};
/* Adds a profile, of whatever target, to *sums instead: all of it or nothing. Errors as profile__read()'s. */
int category_counters__sum(struct category_counters *counters, const void *profile, size_t length,
			   struct category_sums *sums, struct so_error *err);

/* Wall time, ns by state, of all its threads. False: the target's waits are not looked at. */
bool category_counters__get_states(struct category_counters *counters, uint32_t id, int64_t ns[WALL_STATE_COUNT]);
/* ns by category. False: the target has no counters. */
bool category_counters__get(struct category_counters *counters, uint32_t id, int64_t ns[CATEGORY_COUNTERS_MAX]);

#endif
