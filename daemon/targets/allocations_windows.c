// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The budget of probes on allocators: all the time, or where that is too much in on-windows. What a window sees is scaled
 * to the off-window before it. Each window's scale is set as it begins, by how much of a thread's time probes took in
 * the windows before: so whatever is counted has its weight at once.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/os/clock.h"
#include "daemon/targets/allocations_internal.h"

#define MS 1000000ull

#define ON_NS      (50 * MS)
#define LOOK_NS    (100 * MS) /* between two looks at the cost, where there are no windows */
#define RETRY_NS   (5 * MS)
#define MAX_OFF_NS (10000 * MS)

#define BUDGET (ALLOCATIONS_PERCENT / 100.0)
/* What is left over of it may be taken at once, and so much in the beginning. */
#define CREDIT_NS (100.0 * MS)
/* Below this part of the budget windows are not needed. */
#define ENOUGH 0.7
/* Of the newest window in the smoothed share. */
#define NEWEST     0.3
#define MOST_SHARE 0.95

static uint64_t cpu_ns(const struct target_allocations *allocations)
{
	uint64_t sum = 0;
	clockid_t clock;

	for (size_t i = 0; i < allocations->n_processes; i++)
		if (!clock_getcpuclockid(allocations->processes[i].pid, &clock))
			sum += clock__read_ns(clock);
	return sum;
}

/* Where a process has ended meanwhile, the sum is smaller than before. */
static double more(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

void allocations_account(struct allocations *a, struct target *t, uint64_t now_ns)
{
	const struct alloc_prices *prices = alloc_probes__prices(a->probes);
	const struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;
	const struct allocations_reading *before = &allocations->accounted;
	const struct allocations_reading now = { now_ns, cpu_ns(allocations), slot->hits, slot->stepped_hits,
						 slot->stacks_ns };
	double passed_ns = more(now_ns, before->when_ns), used_ns = more(now.cpu_ns, before->cpu_ns);
	double stacks_ns = more(now.stacks_ns, before->stacks_ns);

	if (before->when_ns) {
		allocations->cost_ns += stacks_ns + more(now.hits, before->hits) * prices->hit_ns +
					more(now.stepped_hits, before->stepped_hits) * prices->stepped_ns;
		allocations->stacks_ns += stacks_ns;
		allocations->time_ns += fmax(passed_ns, used_ns);
		allocations->seen_ns += allocations->placed ? (uint64_t)passed_ns : 0;
	}
	allocations->accounted = now;
}

static void begin_window(struct allocations *a, struct target *t, uint64_t now_ns)
{
	const struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;

	allocations->window = (struct allocations_window){ allocations->cost_ns, allocations->stacks_ns,
							   allocations->time_ns, slot->bytes, slot->left_out };
	allocations->window_end_ns = now_ns + (allocations->windowed ? ON_NS : LOOK_NS);
}

void allocations_begin_windows(struct allocations *a, struct target *t, uint64_t now_ns)
{
	t->allocations.placed = true;
	t->allocations.credit_ns = CREDIT_NS;
	allocations_account(a, t, now_ns);
	begin_window(a, t, now_ns);
}

/* Fewer are chosen where their stacks take more than half of what there is, or there is no room for their blocks. */
static bool adapt_mean(struct allocations *a, struct target *t, double stacks_share, double hits_share)
{
	struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	double most = fmax(BUDGET / 2, hits_share);

	if ((stacks_share > most || slot->left_out > t->allocations.window.left_out) &&
	    slot->shift < SO_ALLOC_MAX_SHIFT) {
		slot->shift++;
		return true;
	}
	if (slot->shift && stacks_share < most / 8)
		slot->shift--;
	return false;
}

static void begin_off_window(struct target_allocations *allocations, uint64_t now_ns)
{
	double off_ns = (double)ON_NS * (allocations->share / BUDGET - 1);

	/* At random, so that nothing that the program does at regular times is always seen, or never. */
	off_ns = fmin(off_ns * (0.5 + (double)random() / RAND_MAX), (double)MAX_OFF_NS);
	allocations_remove_all(allocations);
	allocations->placed = false;
	allocations->off_begin_ns = now_ns;
	allocations->window_end_ns = now_ns + (uint64_t)fmax(off_ns, 1.0 * RETRY_NS);
}

static void count_window(struct target_allocations *allocations, const struct so_alloc_slot *slot)
{
	double bytes = (double)(slot->bytes - allocations->window.bytes);

	allocations->windows++;
	allocations->window_bytes += bytes;
	allocations->window_squares += bytes * bytes;
}

/* An on-window is over, or it is time for a look. */
static void end_window(struct allocations *a, struct target *t, uint64_t now_ns)
{
	struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;
	double time_ns, stacks_share, share;
	bool fewer, dear;

	allocations_account(a, t, now_ns);
	time_ns = allocations->time_ns - allocations->window.time_ns;
	share = time_ns > 0 ? (allocations->cost_ns - allocations->window.cost_ns) / time_ns : 0;
	stacks_share = time_ns > 0 ? (allocations->stacks_ns - allocations->window.stacks_ns) / time_ns : 0;
	allocations->credit_ns += (BUDGET - share) * time_ns;
	allocations->credit_ns = fmin(allocations->credit_ns, CREDIT_NS);
	if (allocations->windowed)
		share = (1 - NEWEST) * allocations->share + NEWEST * share;
	allocations->share = share;
	fewer = adapt_mean(a, t, stacks_share, share - stacks_share);
	if (allocations->windowed)
		count_window(allocations, slot);
	/* It may be enough to take fewer stacks. */
	dear = allocations->credit_ns < 0 && share > BUDGET && !(fewer && share - stacks_share < BUDGET);
	if (allocations->windowed ? share > ENOUGH * BUDGET : dear) {
		allocations->windowed = true;
		begin_off_window(allocations, now_ns);
		return;
	}
	allocations->windowed = false;
	slot->until_ns = 0;
	slot->scale = SO_ALLOC_SCALE;
	begin_window(a, t, now_ns);
}

static void end_off_window(struct allocations *a, struct target *t, uint64_t now_ns)
{
	struct so_alloc_slot *slot = alloc_probes__slot(a->probes, t->slot);
	struct target_allocations *allocations = &t->allocations;
	double scale, own_ns = (double)ON_NS * (1 - fmin(allocations->share, MOST_SHARE));

	if (allocations_going(a, allocations)) {
		allocations->window_end_ns = now_ns + RETRY_NS;
		return;
	}
	allocations_account(a, t, now_ns);
	/* Nothing is counted until all are there. */
	slot->until_ns = 1;
	allocations_place_all(a, t);
	now_ns = clock__now_ns();
	scale = 1 + (double)(now_ns - allocations->off_begin_ns) / own_ns;
	allocations->most_scale = fmax(allocations->most_scale, scale);
	slot->scale = (uint32_t)(scale * SO_ALLOC_SCALE + 0.5);
	slot->until_ns = now_ns + ON_NS;
	allocations->placed = true;
	allocations_account(a, t, now_ns);
	begin_window(a, t, now_ns);
}

void allocations_turn_windows(struct allocations *a, struct target *t, uint64_t now_ns)
{
	if (t->allocations.placed)
		end_window(a, t, now_ns);
	else
		end_off_window(a, t, now_ns);
}
