// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The budget of probes on allocators: they are there all the time, or where that is too much in on-windows. What
 * windows see is scaled by CPU time without that of the probes: all since there are windows, by that in the windows.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/os/clock.h"
#include "daemon/targets/allocations_internal.h"

#define MS 1000000ull

#define ON_NS      (50 * MS)
#define RETRY_NS   (5 * MS)
#define MAX_OFF_NS (10000 * MS)
/* Between two looks at the cost, where there are no windows. */
#define LOOK_NS (100 * MS)
/* The same where probes are new: of a program that allocates all the time, most of that is their cost. */
#define EARLY_LOOK_NS (10 * MS)
#define EARLY_NS      (1000 * MS)
/* Those that are there while others are placed cost already: if none comes for so long they are taken away again. */
#define MOST_PLACING_NS (1000 * MS)

#define BUDGET (ALLOCATIONS_PERCENT / 100.0)
/* What is left over of it may be taken at once, and so much in the beginning. */
#define CREDIT_NS       (100.0 * MS)
#define FIRST_CREDIT_NS (30.0 * MS)
/* Below this part of the budget windows are not needed. */
#define ENOUGH 0.7
/* Of the newest window in the smoothed share. */
#define NEWEST 0.3

/* Where a process or a thread has ended meanwhile, a sum is smaller than before. */
static double more(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

static struct allocations_reading read_counters(struct allocations *a, struct target *t)
{
	const struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;
	struct allocations_reading now = { .when_ns = clock__now_ns(),
					   .hits = slot->hits,
					   .stepped_hits = slot->stepped_hits,
					   .stacks_ns = slot->stacks_ns,
					   .bytes = slot->bytes,
					   .left_out = slot->left_out };

	allocations_count_processes(allocations);
	now.cpu_ns = allocations->cpu_ns;
	now.waited_ns = allocations->waited_ns;
	return now;
}

static struct allocations_spent spent_between(struct allocations *a, const struct allocations_reading *from,
					      const struct allocations_reading *to)
{
	const struct alloc_prices *prices = &a->prices;
	double cpu = more(to->cpu_ns, from->cpu_ns);
	struct allocations_spent spent = { .stacks_ns = more(to->stacks_ns, from->stacks_ns) };

	spent.cost_ns = spent.stacks_ns + more(to->hits, from->hits) * prices->hit_ns +
			more(to->stepped_hits, from->stepped_hits) * prices->stepped_ns;
	spent.own_ns = fmax(0, cpu - spent.cost_ns);
	spent.time_ns = fmax(cpu, more(to->when_ns, from->when_ns) - more(to->waited_ns, from->waited_ns));
	return spent;
}

/* Or soon. */
static bool is_placed(const struct target_allocations *allocations)
{
	return allocations->state == ALLOCATIONS_ALL_THE_TIME || allocations->state == ALLOCATIONS_ON;
}

static void account(struct allocations *a, struct target *t, const struct allocations_reading *now)
{
	struct target_allocations *allocations = &t->allocations;
	const struct allocations_spent spent = spent_between(a, &allocations->accounted, now);

	if (allocations->accounted.when_ns) {
		allocations->spent.cost_ns += spent.cost_ns;
		allocations->spent.stacks_ns += spent.stacks_ns;
		allocations->spent.own_ns += spent.own_ns;
		allocations->spent.time_ns += spent.time_ns;
		if (allocations->linked && is_placed(allocations))
			allocations->seen_ns += now->when_ns - allocations->accounted.when_ns;
	}
	allocations->accounted = *now;
}

void allocations_account(struct allocations *a, struct target *t)
{
	const struct allocations_reading now = read_counters(a, t);

	account(a, t, &now);
}

static void begin_window(struct target_allocations *allocations, const struct allocations_reading *now)
{
	bool early = now->when_ns < allocations->early_since_ns + EARLY_NS;

	allocations->window = *now;
	allocations->window_end_ns = now->when_ns + (allocations->state == ALLOCATIONS_ON ? ON_NS
						     : early                              ? EARLY_LOOK_NS
											  : LOOK_NS);
}

void allocations_begin_windows(struct allocations *a, struct target *t)
{
	const struct allocations_reading now = read_counters(a, t);

	t->allocations.credit_ns = FIRST_CREDIT_NS;
	account(a, t, &now);
	begin_window(&t->allocations, &now);
}

/* Fewer are chosen where their stacks take more than half of what there is, or there is no room for their blocks. */
static bool adapt_mean(struct so_alloc_slot *slot, double stacks_share, double hits_share, bool full)
{
	double most = fmax(BUDGET / 2, hits_share);

	if ((stacks_share > most || full) && slot->shift < SO_ALLOC_MAX_SHIFT) {
		slot->shift++;
		return true;
	}
	if (slot->shift && stacks_share < most / 8)
		slot->shift--;
	return false;
}

static void begin_off_window(struct target_allocations *allocations, const struct allocations_reading *now)
{
	double off_ns = (double)ON_NS * (allocations->share / BUDGET - 1) + allocations->debt_ns / BUDGET;

	/* At random, so that nothing that the program does at regular times is always seen, or never. */
	off_ns = fmin(off_ns * (0.5 + (double)random() / RAND_MAX), (double)MAX_OFF_NS);
	allocations_remove_all(allocations);
	allocations->state = ALLOCATIONS_OFF;
	allocations->debt_ns = 0;
	allocations->window = *now;
	allocations->window_end_ns = now->when_ns + (uint64_t)fmax(off_ns, (double)RETRY_NS);
}

static void count_window(struct target_allocations *allocations, const struct allocations_spent *spent, double bytes)
{
	struct allocations_windows *w = &allocations->windows;
	double own = spent->own_ns, cpu = own + spent->cost_ns;

	w->n++;
	w->x += bytes;
	w->y += own;
	w->xx += bytes * bytes;
	w->xy += bytes * own;
	w->yy += own * own;
	w->own_ns += own;
	if (cpu > 0)
		w->most_share = fmax(w->most_share, spent->cost_ns / cpu);
}

static double share_of(double part_ns, double ns)
{
	return ns > 0 ? part_ns / ns : part_ns > 0;
}

/* An on-window is over, or it is time for a look. */
static void end_window(struct allocations *a, struct target *t)
{
	struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;
	const struct allocations_reading before = allocations->window;
	bool windowed = allocations->state == ALLOCATIONS_ON, fewer, dear;
	struct allocations_reading now;
	struct allocations_spent spent;
	double share, stacks_share;

	/* Nothing is counted any more. */
	if (windowed)
		slot->until_ns = 1;
	now = read_counters(a, t);
	spent = spent_between(a, &before, &now);
	share = share_of(spent.cost_ns, spent.time_ns);
	stacks_share = share_of(spent.stacks_ns, spent.time_ns);
	allocations_in_progress(allocations);
	account(a, t, &now);
	if (allocations->early_since_ns >= before.when_ns)
		allocations->credit_ns = fmin(allocations->credit_ns, FIRST_CREDIT_NS);
	allocations->credit_ns = fmin(allocations->credit_ns + BUDGET * spent.time_ns - spent.cost_ns, CREDIT_NS);
	fewer = adapt_mean(slot, stacks_share, share - stacks_share, now.left_out > before.left_out);
	/* It may be enough to take fewer stacks. */
	dear = allocations->credit_ns < 0 && share > BUDGET && !(fewer && share - stacks_share < BUDGET);
	if (windowed) {
		count_window(allocations, &spent, more(now.bytes, before.bytes));
		share = (1 - NEWEST) * allocations->share + NEWEST * share;
	}
	allocations->share = share;
	if (windowed ? share > ENOUGH * BUDGET : dear) {
		slot->until_ns = 1;
		begin_off_window(allocations, &now);
		return;
	}
	if (windowed) {
		allocations->credit_ns = FIRST_CREDIT_NS;
		allocations->debt_ns = 0;
	}
	allocations->state = ALLOCATIONS_ALL_THE_TIME;
	slot->until_ns = 0;
	slot->seen = SO_ALLOC_ALL_THE_TIME;
	begin_window(allocations, &now);
}

/* Also what probes cost that were there before the others. */
static struct allocations_reading count_off_window(struct allocations *a, struct target *t)
{
	struct target_allocations *allocations = &t->allocations;
	const struct allocations_reading now = read_counters(a, t);
	const struct allocations_spent spent = spent_between(a, &allocations->window, &now);

	account(a, t, &now);
	allocations->windows.own_ns += spent.own_ns;
	allocations->debt_ns += spent.cost_ns;
	return now;
}

static void give_up_placing(struct allocations *a, struct target *t)
{
	struct target_allocations *allocations = &t->allocations;

	allocations->window = count_off_window(a, t);
	allocations_remove_all(allocations);
	allocations->state = ALLOCATIONS_OFF;
	allocations->window_end_ns = allocations->window.when_ns + MAX_OFF_NS;
}

static void begin_on_window(struct allocations *a, struct target *t)
{
	struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;
	const struct allocations_reading now = count_off_window(a, t);

	allocations->late_since_ns = 0;
	allocations->state = ALLOCATIONS_ON;
	begin_window(allocations, &now);
	slot->seen = SO_ALLOC_IN_WINDOWS;
	slot->until_ns = 0;
}

/* Nothing is counted until all probes are there. */
static void end_off_window(struct allocations *a, struct target *t)
{
	struct target_allocations *allocations = &t->allocations;
	uint64_t now_ns = clock__now_ns();
	unsigned left;

	allocations->window_end_ns = now_ns + RETRY_NS;
	if (!allocations->late_since_ns)
		allocations->late_since_ns = now_ns;
	if (allocations->state == ALLOCATIONS_OFF) {
		if (allocations_going(a, allocations))
			return;
		allocations->state = ALLOCATIONS_PLACING;
		allocations->n_placing = UINT_MAX;
		allocations_place_all(a, t);
	}
	left = allocations_in_progress(allocations);
	if (left < allocations->n_placing)
		allocations->placing_since_ns = now_ns;
	allocations->n_placing = left;
	if (!left)
		begin_on_window(a, t);
	else if (now_ns - allocations->placing_since_ns > MOST_PLACING_NS)
		give_up_placing(a, t);
}

void allocations_turn_windows(struct allocations *a, struct target *t)
{
	if (is_placed(&t->allocations))
		end_window(a, t);
	else
		end_off_window(a, t);
}
