// SPDX-License-Identifier: GPL-2.0-or-later
/* What the probes of a target cost it, by what its calls and its clocks tell: for the budget, and for what is decided besides. */
#include <math.h>
#include <string.h>

#include "daemon/cuda/cuda_watch_parts.h"

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

static uint64_t on_time(const struct cuda_watch *w, uint64_t now)
{
	return w->on_ns + (cuda_watch_is_on(w) ? now - w->on_since_ns : 0);
}

#define COSTS_KEPT 20000 /* calls; those before them weigh half */

double cuda_watch_cost_of_call(const struct cuda_watch *w)
{
	return w->cost_calls > 0 ? w->cost_ns / w->cost_calls : 0;
}

static void note_costs(struct cuda_watch *w, double calls, double stepped, const struct cuda_budget_figures *f)
{
	double keep = w->cost_calls > COSTS_KEPT ? 0.5 : 1;

	w->cost_calls = w->cost_calls * keep + calls;
	w->cost_ns = w->cost_ns * keep + calls * f->pair_ns + (double)f->nested * f->nested_ns +
		     stepped * f->stepped_ns;
}

double cuda_watch_most_steady(const struct cuda_watch *w)
{
	double cost = cuda_watch_cost_of_call(w), goal = CUDA_BUDGET_GOAL * w->budget_percent / 100;
	double ns_a_second = CUDA_BUDGET_STEADY_SHARE * goal * fmax(cuda_watch_busy(w), 1) * 1e9;

	return cost > 0 ? ns_a_second / cost : INFINITY;
}

/* What calls of the kinds that count all the time have cost; 0 while that is all kinds. */
static uint64_t look_at_kinds(struct cuda_watch *w, const struct so_cuda_slot *slot,
			      const struct cuda_budget_figures *f)
{
	struct cuda_kind_calls calls;
	uint64_t all = 0, steady = 0;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		calls.calls[i] = gained(slot->kinds[i], w->slot_seen.kinds[i]);
		calls.ns[i] = gained(slot->kinds_ns[i], w->slot_seen.kinds_ns[i]);
		all += calls.calls[i];
		steady += w->kinds.cycled && !(w->kinds.cycled >> i & 1) ? calls.calls[i] : 0;
	}
	note_costs(w, (double)all, (double)gained(slot->stepped_counted, w->slot_seen.stepped_counted), f);
	cuda_kinds__add(&w->kinds, &calls, f->elapsed_ns, f->on_ns);
	/* Right after a choice nothing is known of the kinds that are off. */
	if (!w->kinds.cycled || w->kinds.on_s > 0) {
		cuda_kinds__rates(&w->kinds, &calls);
		cuda_budget__add_calls(w->budget, &calls);
	}
	return (uint64_t)((double)steady * cuda_watch_cost_of_call(w));
}

#define STRAY_KEPT_NS 2e9 /* what is older weighs half */
#define STRAY_SHARE   0.1 /* of the budget */

/* While the cycled kinds are off: hits that calls which count do not explain. */
static void note_stray(struct cuda_watch *w, const struct cuda_budget_figures *f)
{
	double keep = w->stray_elapsed_ns > STRAY_KEPT_NS ? 0.5 : 1;
	uint64_t alone = f->nested + f->light;
	double entries = f->hits > alone ? (double)(f->hits - alone) : 0;
	double cost = entries * f->pair_ns + (double)f->light * f->light_ns + (double)f->nested * f->nested_ns +
		      (double)f->stepped * f->stepped_ns - (double)f->steady_ns;

	w->stray_ns = w->stray_ns * keep + fmax(cost, 0);
	w->stray_elapsed_ns = w->stray_elapsed_ns * keep + (double)f->elapsed_ns;
}

bool cuda_watch_has_strays(const struct cuda_watch *w)
{
	double elapsed = fmax(w->stray_elapsed_ns, 1e8);

	return w->stray_ns > STRAY_SHARE * w->budget_percent / 100 * elapsed * fmax(cuda_watch_busy(w), 1);
}

#define LEAST_TIMED 20
#define TIMED_KEPT  20000 /* entries; those before them weigh half */

static void note_times(struct cuda_watch *w, uint64_t entries, uint64_t entries_ns)
{
	double keep = w->timed > TIMED_KEPT ? 0.5 : 1;

	w->timed = w->timed * keep + (double)entries;
	w->timed_ns = w->timed_ns * keep + (double)entries_ns;
}

struct cuda_probe_cost cuda_watch_cost_of(const struct cuda_watch *w, uint64_t entries, uint64_t entries_ns)
{
	struct cuda_probe_cost cost = cuda_probes__cost(w->probes);
	double timed = w->timed, timed_ns = w->timed_ns;

	/* Calls that count all the time find the caches colder than those of a time on do. */
	if (entries >= LEAST_TIMED) {
		timed = (double)entries;
		timed_ns = (double)entries_ns;
	}
	return timed >= LEAST_TIMED ? cuda_probe_cost__at(&cost, timed_ns / timed) : cost;
}

struct cuda_probe_cost cuda_watch_cost(const struct cuda_watch *w)
{
	return cuda_watch_cost_of(w, 0, 0);
}

/* What is older weighs half: a step of a training lasts less than this, and a program may begin to work at any time. */
#define BUSY_KEPT_NS 5e8

static void note_busy(struct cuda_watch *w, uint64_t cpu_ns, uint64_t elapsed_ns)
{
	double keep = w->busy_elapsed_ns > BUSY_KEPT_NS ? 0.5 : 1;

	w->busy_cpu_ns = w->busy_cpu_ns * keep + (double)cpu_ns;
	w->busy_elapsed_ns = w->busy_elapsed_ns * keep + (double)elapsed_ns;
}

void cuda_watch_set_stacks(struct cuda_watch *w)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);
	struct cuda_budget_plan plan;

	cuda_budget__plan(w->budget, &plan);
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		control->stack_period[i] = plan.stack_period[i];
		control->stack_time_ns[i] = plan.stack_time_ns[i];
	}
}

void cuda_watch_check(struct cuda_watch *w, uint64_t now)
{
	struct cuda_budget_figures f = { .elapsed_ns = now - w->checked_ns };
	struct cuda_probe_cost cost;
	uint64_t on = on_time(w, now);
	uint64_t entries, entries_ns, steady_ns;
	struct so_cuda_slot slot;

	if (now <= w->checked_ns || cuda_probes__slot(w->probes, w->slot, &slot))
		return;
	entries = gained(slot.entries, w->slot_seen.entries);
	entries_ns = gained(slot.entries_ns, w->slot_seen.entries_ns);
	note_times(w, entries, entries_ns);
	cost = cuda_watch_cost_of(w, entries, entries_ns);
	f.pair_ns = cost.pair_ns;
	f.light_ns = cost.light_ns;
	f.nested_ns = cost.nested_ns;
	f.stepped_ns = cost.stepped_ns;
	f.on_ns = on - w->on_seen_ns;
	f.cpu_ns = cpu_since_last(w);
	f.hits = gained(slot.hits, w->slot_seen.hits);
	f.returns = gained(slot.returns, w->slot_seen.returns);
	f.nested = gained(slot.nested, w->slot_seen.nested);
	f.stepped = gained(slot.stepped, w->slot_seen.stepped);
	if (cuda_probes__kind(w->probes) != CUDA_PROBE_PERF && f.hits > f.nested + f.returns)
		f.light = f.hits - f.nested - f.returns;
	f.stacks = gained(slot.stacks, w->slot_seen.stacks);
	f.stacks_ns = gained(slot.stacks_ns, w->slot_seen.stacks_ns);
	steady_ns = look_at_kinds(w, &slot, &f);
	/* With all probes on all the time none is apart from the others. */
	if (w->kinds.cycled && w->cycle.duty < 1) {
		f.cycled = w->kinds.cycled;
		f.steady_ns = steady_ns;
		f.steady_stacks_ns = gained(slot.steady_stacks_ns, w->slot_seen.steady_stacks_ns);
	}
	if (f.cycled && !w->had_cycled)
		note_stray(w, &f);
	w->had_cycled = cuda_watch_has_cycled(w);
	w->slot_seen = slot;
	note_busy(w, f.cpu_ns, f.elapsed_ns);
	w->cpu_ns += f.cpu_ns;
	/* A thread that waits for the GPU spends time as well: the target's time is that of one thread at least. */
	if (f.cpu_ns < f.elapsed_ns)
		f.cpu_ns = f.elapsed_ns;
	w->on_seen_ns = on;
	w->checked_ns = now;
	cuda_budget__add(w->budget, &f);
	cuda_watch_set_stacks(w);
}
