// SPDX-License-Identifier: GPL-2.0-or-later
/* What the probes of a target cost it, and what is measured of it for that. */
#include <math.h>
#include <string.h>

#include "stakeout/cuda_names.h"
#include "daemon/cuda/cuda_watch.h"

#define CHECK_NS      50000000ull
#define DECIDE_NS     1000000000ull
#define FIRST_NS      20000000ull /* in the first second, and where much was spent */
#define KEPT_S        1.0         /* rates of about so much time count */
#define URGENT_S      0.4         /* of the budget: who owes more, and spends too much, is looked at before it is due */
#define CREDIT_S      0.5         /* of the budget that may be spent later */
#define MOST_COLDNESS 4.0
#define LEAST_TIMED   20
#define FORGET_S      20.0 /* after which what is not watched is watched again */

/* All of the target's time: whatever it costs. */
static bool is_unlimited(const struct cuda_watch *w)
{
	return w->budget_percent >= 100;
}

/* CPU time that the processes have used since the last look, or since they were added, by their own clocks. */
static uint64_t cpu_since_last(struct cuda_watch *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->n_processes; i++) {
		struct cuda_process *p = &w->processes[i];
		uint64_t now = cuda_watch_cpu_of(p);

		if (!now)
			continue;
		sum += p->cpu_ns && now > p->cpu_ns ? now - p->cpu_ns : 0;
		p->cpu_ns = now;
	}
	return sum;
}

static void note_coldness(struct cuda_watch *w, const struct so_cuda_slot *gained)
{
	const struct cuda_prices prices = cuda_probes__prices(w->probes);
	double programs = (double)(gained->timed + gained->untimed);
	double expected =
		(double)gained->timed * prices.timed_program_ns + (double)gained->untimed * prices.counted_program_ns;
	double coldness = expected > 0 ? (double)(gained->timed_ns + gained->untimed_ns) / expected : 1;

	if (programs >= LEAST_TIMED)
		w->coldness += fmin(programs / 500, 0.5) * (fmin(fmax(coldness, 1), MOST_COLDNESS) - w->coldness);
}

static bool is_seldom_timed(const struct cuda_watch *w, unsigned unit)
{
	return cuda_probes__control(w->probes, w->slot)->counted[unit];
}

/* What the unit would cost on each rung. */
static struct cuda_ladder_unit unit_at(const struct cuda_watch *w, unsigned i)
{
	const struct cuda_prices prices = cuda_probes__prices(w->probes);
	double nested = w->nested_per_s[i], calls = fmax(w->hits_per_s[i] - nested, 0),
	       share = 1.0 / SO_CUDA_TIMED_ONE_IN;
	unsigned kind = i % SO_CUDA_KIND_ROOM;

	return (struct cuda_ladder_unit){
		.full = w->coldness * (calls * prices.timed_ns + nested * prices.nested_ns),
		.counted = w->coldness * (calls * (share * prices.timed_ns + (1 - share) * prices.counted_ns) +
					  nested * prices.nested_ns),
		.nested = w->hits_per_s[i] > 0 ? nested / w->hits_per_s[i] : 0,
		/* What is allocated is known by the call's return. */
		.has_counted = prices.has_counted && !w->together && kind != SO_CUDA_ALLOC &&
			       kind != SO_CUDA_ASYNC_ALLOC && kind != SO_CUDA_FREE && kind != SO_CUDA_ASYNC_FREE,
	};
}

/* With a static runtime: the unit that this one goes with. A blocking copy may be an asynchronous one of the driver. */
static unsigned leader_of(unsigned unit)
{
	unsigned kind = unit % SO_CUDA_KIND_ROOM;

	return kind == SO_CUDA_BLOCKING_COPY ? SO_CUDA_COPY : kind;
}

static void climb(struct cuda_watch *w, double elapsed_s)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);
	struct cuda_ladder_unit units[SO_CUDA_UNITS];
	uint32_t windowed, unwatched;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		units[i] = unit_at(w, i);
	for (unsigned i = 0; w->together && i < SO_CUDA_UNITS; i++) {
		unsigned leader = leader_of(i);

		if (leader == i)
			continue;
		units[leader].full += units[i].full;
		units[i] = (struct cuda_ladder_unit){ 0 };
	}
	cuda_ladder__decide(&w->ladder, units, cuda_watch_allowed(w), elapsed_s);
	for (unsigned i = 0; w->together && i < SO_CUDA_UNITS; i++)
		w->ladder.rung[i] = w->ladder.rung[leader_of(i)];
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		control->counted[i] = units[i].has_counted && w->ladder.rung[i] != CUDA_RUNG_FULL;
	windowed = cuda_ladder__units(&w->ladder, CUDA_RUNG_WINDOWED);
	unwatched = cuda_ladder__units(&w->ladder, CUDA_RUNG_NOT_WATCHED);
	if (windowed != w->windowed || unwatched != w->unwatched)
		cuda_watch_divide(w, windowed, unwatched);
}

void cuda_watch_set_stacks(struct cuda_watch *w)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);
	double rate[SO_CUDA_KIND_ROOM] = { 0 }, busy[SO_CUDA_KIND_ROOM] = { 0 };
	double most = is_unlimited(w) ? INFINITY : cuda_watch_allowed_stacks(w) / w->stack_ns;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		unsigned kind = i % SO_CUDA_KIND_ROOM;
		double share = w->windowed >> i & 1 ? 0.2 : w->unwatched >> i & 1 ? 0 : 1;

		if (is_seldom_timed(w, i))
			share /= SO_CUDA_TIMED_ONE_IN;
		rate[kind] += share * fmax(w->hits_per_s[i] - w->nested_per_s[i], 0);
		busy[kind] += (w->windowed >> i & 1 ? 0.2 : 1) * w->busy_per_s[i];
	}
	cuda_stack_plan__make(rate, busy, most, &w->stacks);
	for (unsigned i = 0; i < SO_CUDA_KIND_ROOM; i++) {
		control->stack_period[i] = w->stacks.period[i];
		control->stack_time_ns[i] = w->stacks.time_ns;
	}
}

static void decide(struct cuda_watch *w, uint64_t now)
{
	double elapsed_s = (double)(now - w->decided_ns) * 1e-9;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		double kept = w->unwatched >> i & 1 ? exp(-elapsed_s / FORGET_S) : 1;

		w->hits_per_s[i] *= kept;
		w->nested_per_s[i] *= kept;
	}
	if (!is_unlimited(w))
		climb(w, elapsed_s);
	cuda_watch_set_stacks(w);
	w->decided_ns = now;
}

/* Returns what is spent of the budget, as a part. */
static double note_cost(struct cuda_watch *w, const struct so_cuda_slot *gained, double elapsed)
{
	double cpu = (double)cpu_since_last(w), part = 1 - exp(-elapsed / (KEPT_S * 1e9));
	double time = fmax(cpu, elapsed), cost, budget;

	w->cpus = fmax(w->cpus + part * (cpu / elapsed - w->cpus), 1);
	note_coldness(w, gained);
	if (gained->stacks)
		w->stack_ns += 0.2 * ((double)gained->stacks_ns / (double)gained->stacks - w->stack_ns);
	cost = cuda_watch_cost_of(w, gained);
	budget = w->budget_percent / 100 * time;
	w->cost_ns += cost;
	w->time_ns += time;
	w->cpu_ns += (uint64_t)cpu;
	w->counted_calls += (double)gained->calls;
	w->debt_ns = fmax(w->debt_ns + cost - budget, -CREDIT_S * cuda_watch_budget(w));
	return budget > 0 ? cost / budget : 0;
}

void cuda_watch_check(struct cuda_watch *w, uint64_t now)
{
	double elapsed = (double)(now - w->checked_ns), spent, part;
	struct so_cuda_slot slot, gained;
	bool urgent;

	if (now <= w->checked_ns || cuda_probes__slot(w->probes, w->slot, &slot))
		return;
	gained = slot;
	cuda_slot__subtract(&gained, &w->checked_slot);
	w->checked_slot = slot;
	spent = note_cost(w, &gained, elapsed);
	urgent = spent > 1 && w->debt_ns > URGENT_S * cuda_watch_budget(w) && w->phase != CUDA_WATCH_ON;
	part = fmax(1 - exp(-elapsed / (KEPT_S * 1e9)), elapsed / (double)(now - w->begin_ns));
	/* What has just begun is what counts then. */
	if (urgent)
		part = fmax(part, 0.3);
	cuda_watch_note_rates(w, &gained, ~(w->windowed | w->unwatched), elapsed, part);
	w->checked_ns = now;
	if (urgent || now - w->decided_ns >= DECIDE_NS)
		decide(w, now);
}

uint64_t cuda_watch_next_check_ns(const struct cuda_watch *w)
{
	bool early = w->checked_ns - w->begin_ns < DECIDE_NS || w->debt_ns > 0;

	return w->checked_ns + (early ? FIRST_NS : CHECK_NS);
}
