/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps what the CUDA probes cost a target within a budget: decides how many of the calls get a stack, and for how much of
 * the time the probes are on. It has no clock and does no I/O: the caller tells what happened, and does what is decided.
 *
 * Cost percent = (entry and return pairs × pair_ns + nested entries × nested_ns
 *                + entries that do not count × light_ns + single-stepped entries × stepped_ns
 *                + stacks_ns) / max(cpu_ns, elapsed_ns / 100),
 * where cpu_ns is the target's CPU time: so an idle target is taken to use 1 % of a CPU.
 *
 * Three means, in this order:
 *   stacks      launches, releases and event calls get at most CUDA_BUDGET_STACKS_PER_S stacks a second and kind, other
 *               calls all; when that costs too much, kinds are thinned (those that stay on in a duty cycle by a factor of
 *               their own), the frequent ones first: a kind with few calls keeps up to eight times the share of its stacks
 *               that all of them keep together. Calls that take long, of any kind, have a share as if they were one more: a wait
 *               may be rare among many calls of its kind
 *   duty        when the probes alone cost too much, they are on for a share of the time only; the stacks that are left then
 *               cost a tenth of what the probes do: some hundred a second
 *   emergency   when a sudden rise would use up what is left of the budget of the last 10 s before the next look, the duty
 *               falls at once as far as needed
 * The first two aim at CUDA_BUDGET_GOAL of the budget by the costs of the last 10 s, so that they follow a target's bursts
 * little; falling back is immediate, rising takes a sustained reason and is slow. The average over any 10 s is to stay within
 * the budget after the first second, in which the costs are learnt (the targets of tests/unit/test_cuda_budget.c do), if
 *   - figures are given every cuda_budget__check_ms(): what is spent before the first look at a rise is spent (with rarer
 *     looks it is paid back later, as far as the lowest duty allows), and
 *   - three times on of CUDA_BUDGET_MIN_ON_MS, all of which the probes may take, are less than that: budgets of 0.3 % or more, and
 *   - what it costs to place the probes, and those that count nothing yet, is no more than what counts.
 */
#ifndef STAKEOUT_CUDA_BUDGET_H
#define STAKEOUT_CUDA_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/cuda/cuda_kinds.h"
#include "stakeout/cleanup.h"

#define CUDA_BUDGET_STACKS_PER_S 200.0
#define CUDA_BUDGET_GOAL         0.75
#define CUDA_BUDGET_MIN_DUTY \
	0.01 /* or two fifths of the budget, if that is less: a loop that only calls may pay all of its time for the probes */
#define CUDA_BUDGET_STACKS_SHARE \
	0.2 /* of the goal, for stacks of calls whose probes stay on in a duty cycle, */
#define CUDA_BUDGET_STEADY_SHARE \
	0.25 /* of the goal, for probes that stay on in a duty cycle, those of waits counted half: the caller chooses which */
#define CUDA_BUDGET_MIN_ON_MS    10  /* the probes are on for so long at least, once they are */
#define CUDA_BUDGET_MIN_CYCLE_MS 50  /* a quarter longer on average */
#define CUDA_BUDGET_STEADY_ON_MS 500 /* the length of a "cycle" without an off part */

enum cuda_budget_state {
	CUDA_BUDGET_ALL,          /* every call is counted, and every stack taken that is wanted */
	CUDA_BUDGET_FEWER_STACKS, /* every call is counted */
	CUDA_BUDGET_DUTY_CYCLE,   /* calls are counted for part of the time: estimates */
};

/* "all", "fewer-stacks", "duty-cycle" */
const char *cuda_budget__word(enum cuda_budget_state state);

/* What happened since the last figures, of one target. */
struct cuda_budget_figures {
	uint64_t elapsed_ns;                     /* wall time */
	uint64_t on_ns;                          /* of which the probes were on */
	uint64_t cpu_ns;                         /* CPU time of the target's processes in elapsed_ns */
	uint64_t hits, returns, nested, stepped; /* as in struct so_cuda_slot */
	uint64_t light; /* of hits: entries that do not count, whose return is not hit */
	uint64_t stacks, stacks_ns;
	uint32_t cycled; /* kinds that a duty cycle switches, 1 << enum so_cuda_kind; 0: none yet */
	/* What stacks of the other kinds have cost; a part of stacks_ns. 0 while there are none. */
	uint64_t steady_stacks_ns;
	/* What the probes that stay on in a duty cycle have cost; a part of what the figures above do. */
	uint64_t steady_ns;
	/* What one costs, in this target: entry with return, entry that does not count, entry of a nested call, and what is added by single-stepping. */
	double pair_ns, light_ns, nested_ns, stepped_ns;
};

struct cuda_budget;

/*
 * budget_percent: below 0.01 counts as 0.01; 100 or more: no limit, every call is counted and every stack taken that is wanted.
 * -ENOMEM.
 */
int cuda_budget__new(double budget_percent, struct cuda_budget **out);
void cuda_budget__free(struct cuda_budget *budget);
CLEANUP_DEFINE(struct cuda_budget *, cuda_budget, cuda_budget__free)

/*
 * Switching takes so long that the probes are to be on for `times` as long as CUDA_BUDGET_MIN_ON_MS, and a cycle's least length is
 * two and a half times that, or CUDA_BUDGET_MIN_CYCLE_MS. 1 until it is told. What still hits probes that are being taken away
 * counts as cost of the time that they were on, so the duty follows.
 */
void cuda_budget__stretch(struct cuda_budget *budget, unsigned times);

/* How often figures are wanted, in ms: 20 for a budget of 1 % or less, 250 at most. Reading them is one look at the slot's counters. */
unsigned cuda_budget__check_ms(const struct cuda_budget *budget);

/* Figures of any length of time; updates the plan. */
void cuda_budget__add(struct cuda_budget *budget, const struct cuda_budget_figures *figures);
/* The calls counted lately by kind: their shares, and what one takes, hold until they are next told. */
void cuda_budget__add_calls(struct cuda_budget *budget, const struct cuda_kind_calls *calls);

struct cuda_budget_plan {
	enum cuda_budget_state state;
	double duty;                               /* 1.0 … the lowest, above */
	uint32_t stack_period[SO_CUDA_KIND_COUNT]; /* for struct so_cuda_control, */
	uint64_t stack_time_ns[SO_CUDA_KIND_COUNT];
	double overhead_percent; /* what the probes cost in the last 10 s, or since they began */
};

void cuda_budget__plan(const struct cuda_budget *budget, struct cuda_budget_plan *out);

/*
 * One cycle at the duty of now: the probes are off, on, and off again. At full duty they are on for all of it.
 *
 * Lengths and places are random, so that a periodic target is met at each of its phases alike: a cycle is 1 to 1.5 times as
 * long as it must be, and the on part lies anywhere in it. Its share of the cycle is the duty; what rounding to whole ms
 * leaves is made up for in the next cycle.
 *
 * A call that is seen stands for `factor` calls: the factor was chosen before the call came, so the sum is right on average
 * whatever the target does. Calls of several cycles may share the average factor of these, on time by on time, only as long
 * as the duty is the same: a burst lowers it, and what was seen before then must not get the weight of what came after.
 *
 * random: 64 random bits.
 */
struct cuda_budget_cycle {
	uint32_t off_before_ms, on_ms, off_after_ms;
	double duty;
	double factor; /* total / on: 1 or more */
};

void cuda_budget__cycle(struct cuda_budget *budget, uint64_t random, struct cuda_budget_cycle *out);

/*
 * Asked while the probes are on: whether they must go off at once, and a new cycle begin. Otherwise a cycle is carried
 * through, though the duty may have fallen: ended where it saw a burst, it would not have seen what it stands for.
 */
bool cuda_budget__must_end(const struct cuda_budget *budget, const struct cuda_budget_cycle *cycle);

#endif
