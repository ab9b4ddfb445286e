/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The threads that are looked at, what each did when it was seen last, and the time that is counted of it. */
#ifndef STAKEOUT_WAITING_THREADS_H
#define STAKEOUT_WAITING_THREADS_H

#include "daemon/targets/targets.h"
#include "stakeout/looks_abi.h"

enum waiting_state { WAITING_RUNS, WAITING_WAITS, WAITING_RUNNABLE };

struct waiting_thread {
	uint32_t tid, tgid, slot;
	uid_t uid; /* whose share of the list it takes */
	char comm[16];
	uint64_t started_ns, switches;
	enum waiting_state state; /* at the last look */
	bool ended;
	uint64_t at_ns, run_ns, delay_ns; /* up to where its time is counted, and the kernel's sums then */
	/* Counted, but not given to a stack yet: it has not been found there. Below 0: the kernel's sums were late. */
	int64_t wait_ns, runnable_ns, ran_ns;
	struct stack *waits; /* where it waited last; NULL: not known */
	struct stack *runnable;
};

struct waiting_threads;
int waiting_threads__new(struct waiting_threads **out);
void waiting_threads__free(struct waiting_threads *all);

/* A look found it so. stack: of one that is not on a CPU and has run since the look before; NULL: it has none. */
void waiting_threads__found(struct waiting_threads *all, struct target *t, const struct so_look_record *record,
			    struct stack *stack);
/* Up to then it has not run, if it waited at the last look. */
void waiting_thread__went_on(struct target *t, struct waiting_thread *thread, uint64_t until_ns);
/* Up to then it has done on what it did at the last look, as far as is known; a later look puts right what it did not. */
void waiting_threads__goes_on(struct waiting_threads *all, struct target *t, struct waiting_thread *thread,
			      uint64_t until_ns);
/* The last of it: up to then it did what it did at the last look. It stays until the next sweep. */
void waiting_threads__end(struct waiting_threads *all, struct target *t, struct waiting_thread *thread,
			  uint64_t until_ns);

/* Of targets that are sampled and whose waits are wanted. */
void waiting_threads__each(struct waiting_threads *all, const struct targets *targets,
			   void (*visit)(void *context, struct target *t, struct waiting_thread *thread),
			   void *context);
/* Forgets those that have ended, and all others that __each() would not visit. */
void waiting_threads__sweep(struct waiting_threads *all, const struct targets *targets);

#endif
