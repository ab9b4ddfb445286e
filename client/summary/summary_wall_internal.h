/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For summary_wall.c, which adds up, and summary_wall_text.c, which prints. */
#ifndef STAKEOUT_CLIENT_SUMMARY_WALL_INTERNAL_H
#define STAKEOUT_CLIENT_SUMMARY_WALL_INTERNAL_H

#include "client/render/frame_text.h"
#include "client/summary/summary_parts.h"
#include "client/summary/summary_wall.h"
#include "stakeout/intern.h"

enum part { PART_RUNNING, PART_RUNNABLE, PART_WAITING, PARTS };

/* What is added up under one key of an intern. */
struct sums {
	struct intern keys;
	struct share *shares;
	size_t capacity;
};

struct wall_thread {
	struct share parts[PARTS];
	struct share idle;
	bool own;                          /* it was in the user's Python or scripts */
	const struct profile_sample *name; /* its largest one: a thread may change its name */
	size_t role;                       /* line of the profile; SIZE_MAX: not known */
	size_t wait;                       /* index in of_threads of what it mostly waits for; SIZE_MAX: nothing */
};

struct summary_wall {
	const struct scope *scope;
	struct intern texts;      /* of lines */
	struct sums by_state;     /* state (index in wall_states) */
	struct sums waits;        /* state, line */
	struct sums of_threads;   /* thread, state, line */
	struct sums spins;        /* the same, of lines that run until the GPU has done something */
	struct sums holders;      /* line */
	struct sums blocking;     /* the same line: what others waited for the GIL while it had it; needs times */
	bool timed;               /* the profile keeps times */
	struct intern thread_ids; /* pid, tid */
	struct wall_thread *threads;
	size_t thread_capacity;
	struct share total, gil;
	size_t *order; /* of threads: those that ran most first, idle ones last */
	size_t n_idle;
};

/* The key of a sum, and the part of it that says which thread, state, line it is. */
static inline const uint32_t *sums__key(const struct sums *sums, size_t i)
{
	return intern__key(&sums->keys, i);
}

/* Adds to the sum under a key of n numbers. -ENOMEM. */
int sums__add(struct sums *sums, const uint32_t *key, size_t n, const struct share *share);
/* The number, in w->texts, of the line that a sample is in. Negative: -errno. */
int summary_wall__line(struct summary_wall *w, const struct profile_sample *sample, uint32_t *number);
/* Fills w->blocking, of the same lines as w->holders, and w->timed. -ENOMEM. */
int summary_gil__attribute(struct summary_wall *w);

/*
 * By line that held the GIL: how long others waited for it meanwhile, or, where the profile has no times, how long it
 * was held. Both have the same lines at the same places.
 */
const struct sums *summary_wall__blamed(const struct summary_wall *w);
/* Their indices, the largest first; NULL: no memory. */
size_t *sums__sorted(const struct sums *sums);
/* "python3-12/34 (loader-3)"; without a name by what it was started to do: "python3-12/34 (producer)". */
int wall_thread__name(const struct summary_wall *w, const struct wall_thread *thread, struct text *text);

#endif
