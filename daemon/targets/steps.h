/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a program's steps begin: a function, which is entered once a step. Each entry is reported with its time
 * (SO_STEP_STACK), as a sample of kind SAMPLE_STEP. That is mark 0; the other marks are functions that somebody wants
 * counted, such as a simulator's reset, likewise.
 *
 * A native function is found by its name, as profiles show it ("torch::autograd::Engine::execute"), in the files that
 * the target's root process maps, and gets a uprobe in this process and what it forks.
 *
 * A Python function ("train.py:train_step"), or a line ("train.py:28"), is known by its code object, once that is
 * seen in a stack: a hardware watchpoint (os/watchpoint.h) on the first instruction fires when the interpreter fetches
 * it, in the thread that was seen there.
 */
#ifndef STAKEOUT_STEPS_H
#define STAKEOUT_STEPS_H

#include "daemon/python/python_code.h"
#include "daemon/targets/targets.h"

/*
 * Whether a mark's watchpoint was met by the interpreter's loop, which fetches the instruction, and not by what
 * rewrites it (specialisation). at: the low half of the address of what met it. True where that is not known.
 */
bool steps__is_fetch(const struct target *t, unsigned mark, const struct process *process, uint32_t at);

/* With the engine's lock. mark: below SO_MARKS. */
void steps__add(struct target *t, unsigned mark, const struct stack_sample *sample);

/* A function that is to be counted. */
struct step_place {
	struct python_place python; /* where it is in Python; else a native function in one of the process's files: */
	int fd;                     /* of the file; -1: none */
	uint64_t offset;            /* in it, of the function's first instruction */
	char file[128];             /* its name, */
	char name[256];             /* and the function's, as it was asked for */
};

/*
 * Finds those of n places (SO_MARKS at most; fd -1) that have a name and lie in no Python file, without any lock, in one
 * bounded call. -ENOENT: no file of the process has such a function; -EEXIST: several have; -EINPROGRESS: its files take
 * too long to read; others from reading. Each fd is the caller's to close; none is set on an error.
 */
int steps__find(pid_t pid, struct step_place *places, size_t n, struct so_error *err);

/* How many of a target's began since then, of those in memory; *span_ns: from the first to the last of them. */
uint64_t steps__since(const struct target *t, uint64_t since_ns, uint64_t *span_ns);
/* For pythons.c, of each code object that a stack of the target's processes shows. */
void steps__seen_code(struct target *t, pid_t tgid, uint16_t version, const struct python_code *code);
/* For collector.c, of a stack of the target's thread: arms the watchpoint where it is in the function. */
void steps__seen_stack(struct target *t, struct sampler *sampler, pid_t tgid, pid_t tid, const struct stack *stack);

/*
 * Places the probe of a step, or of a counted function, unless the target or another view of it counts that function
 * already; of a place in Python the watchpoint comes later. With the engine's lock. -EEXIST: steps are another
 * function's, or all marks are; -ENOTSUP: watchpoints do not fire here; others of the kernel.
 */
int steps__begin(struct target *t, bool step, struct sampler *sampler, const struct step_place *place,
		 struct so_error *err);
#define STEPS_TO_KNOW 20

/* Whether a target waits for a slow step. */
static inline bool steps__waits_for_slow(const struct target *t)
{
	return t->slow.factor > 0 || t->slow.limit_ns;
}

/*
 * After a drain, with all entries up to now_ns known: finds the steps that a target is to be of (struct target.span),
 * and a slow one, for a target that waits for it (struct target_info.slow_step_ns): it took slow.factor times the 95th
 * percentile of the latest ones, of which there must be STEPS_TO_KNOW, or longer than slow.limit_ns.
 */
void steps__look(struct target *t, uint64_t now_ns);
/* From now on the next slow one is waited for; one that is under way does not count once more. */
void steps__forgive_slow(struct target *t);
/* Of the target's, or the view's, own marks those that nobody else uses are taken away. */
void steps__end(struct target *t);

#endif
