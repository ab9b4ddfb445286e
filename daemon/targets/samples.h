/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What has been counted of a target. Counters are only ever added to, so what came since a moment is the difference of
 * two readings: a view (a recording of a process that is a target already) and a window keep the counts that they began
 * with.
 *
 * For samples.c, views.c, windows.c and generations.c to look into; with the engine's lock held.
 */
#ifndef STAKEOUT_SAMPLES_H
#define STAKEOUT_SAMPLES_H

#include "daemon/kernel/sampler.h"
#include "daemon/profile/accumulator.h"
#include "daemon/python/python_names.h"

#define SAMPLES_BYTES (256u << 20) /* a target's stacks and counters; beyond: lost, out-of-memory */

/* The figures of a target at a moment. */
struct samples_moment {
	struct so_slot slot; /* samples__lost() */
	struct python_names_stats names;
	uint64_t wall_lost_ns; /* samples__wall_lost_ns() */
	uint64_t at_ns;        /* CLOCK_MONOTONIC */
	int64_t wall_ns;
};

/* The counts at a moment, by index of accumulator.counters. */
struct samples_base {
	uint64_t *counts;
	size_t n;
};

/* Where a window begins (windows.h). */
struct samples_window {
	struct samples_base base;
	struct accumulator carried; /* what was counted since, in generations that have turned old */
	uint64_t lost;              /* samples of these for which that had no room */
	struct samples_moment moment;
};

struct samples {
	struct sampler *sampler;
	uint32_t slot;
	bool ended;
	struct accumulator acc; /* of a view that goes on: what it had before its target began a new generation */
	/* Of a target that is kept (generations.h). */
	struct accumulator older;                     /* the generation before acc's */
	struct accumulator forgotten;                 /* figures only, of all before that */
	struct samples_moment older_since, acc_since; /* where they begin; that of the first one is all 0 */
	uint64_t wall_lost_ns;                        /* time of threads for which there was no room */
	uint64_t alloc_lost_bytes;                    /* the same of memory that was touched */
	uint64_t lost[SO_LOSS_COUNT]; /* those the daemon itself had to lose; the kernel's are in its slot */
	struct so_slot kernel;        /* the slot's counters once sampling has ended */
	/* Of a view. */
	struct samples *of; /* its target's; NULL: no view, or one that has ended */
	struct samples_base base;
	struct so_slot base_slot;
	uint64_t base_wall_lost_ns;
	struct samples_window *window;      /* where the open window began; NULL: the profile is not taken in windows */
	struct samples_window *next_window; /* where the one after it begins, while it is being built */
};

void samples__begin(struct samples *s, struct sampler *sampler, uint32_t slot);
/* No more is counted from here on. */
void samples__end(struct samples *s);
void samples__release(struct samples *s);

/* stack: NULL where it never arrived. What cannot be kept is lost, and counted. */
void samples__add(struct samples *s, const struct stack_sample *sample, const struct stack *stack);
void samples__lose(struct samples *s, unsigned cause, uint64_t n);
/* The one of that hash; borrowed; NULL: there is none. */
struct stack *samples__stack(const struct samples *s, uint64_t hash);
/* Losses of the kernel side and of the daemon together; returns their sum. out may be NULL. */
uint64_t samples__lost(const struct samples *s, struct so_slot *out);
/* Time of threads for which there was no memory; of a view since it began. */
uint64_t samples__wall_lost_ns(const struct samples *s);
/* So far, without those that were lost. */
uint64_t samples__count(const struct samples *s);
/* Samples whose stacks are in memory no more. */
uint64_t samples__forgotten(const struct samples *s);
/* A window of the kernel's map has been drained. */
void samples__next_drain(struct samples *s);

/* All that are in memory, of a view those since it began. -ENOMEM. */
int samples__copy(const struct samples *s, struct accumulator *out);
/* The sums since it began. To be released. -ENOMEM. */
int samples__figures(const struct samples *s, struct accumulator *out);
/* What `from` has counted since a moment, added to what `carried` has (NULL: nothing). -ENOMEM. */
int samples__since(const struct accumulator *carried, const struct accumulator *from, const struct samples_base *base,
		   struct accumulator *out);
/* -ENOMEM. */
int samples_base__take(struct samples_base *base, const struct accumulator *acc);
/* What the latest samples of a thread showed most often, a reference; NULL: it has none. */
struct stack *samples__latest_stack(const struct samples *s, uint32_t tid);

/* The parts with stacks, i from 0 to SAMPLES_PARTS - 1; NULL: it has no such part. */
#define SAMPLES_PARTS 4
const struct accumulator *samples__part(const struct samples *s, unsigned i);
size_t samples__bytes(const struct samples *s);
/* It may take so many more. */
void samples__allow(struct samples *s, size_t more_bytes);

/* Views (views.c). After a drain. -ENOMEM. */
int views__begin(struct samples *view, struct samples *of);
/* After a drain. What has no room is lost, and counted. */
void views__end(struct samples *view);
/* Only what it has counted in its target's younger generation; and that is to turn old. -ENOMEM. */
int views__copy_part(const struct samples *view, struct accumulator *out);
void views__turn(struct samples *view, const struct accumulator *part);

#endif
