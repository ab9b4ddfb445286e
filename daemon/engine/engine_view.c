// SPDX-License-Identifier: GPL-2.0-or-later
/* Recordings of processes that are targets already: the difference between two moments of the target's counters. */
#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_internal.h"

int engine_begin_view(struct engine *e, struct target *view, struct target *of)
{
	int ret = engine_drain(e);

	if (ret)
		return ret;
	engine_hurry_waiting(e, of->slot);
	view->base_counts = calloc(of->acc.n_counters + 1, sizeof(*view->base_counts));
	if (!view->base_counts)
		return -ENOMEM;
	view->n_base = of->acc.n_counters;
	for (size_t i = 0; i < view->n_base; i++)
		view->base_counts[i] = of->acc.counters[i].count;
	engine_target_lost(e, of, &view->base);
	view->of = of;
	view->begin_ns = clock__now_ns();
	view->begin_wall_ns = clock__read_ns(CLOCK_REALTIME);
	view->seen_processes = of->living;
	view->info.state = TARGET_SAMPLING;
	return 0;
}

static uint64_t since(const struct target *view, size_t i)
{
	return view->of->acc.counters[i].count - (i < view->n_base ? view->base_counts[i] : 0);
}

int engine_copy_since(const struct accumulator *carried, const struct accumulator *from, const uint64_t *base,
		      size_t n_base, struct accumulator *out)
{
	struct accumulator acc;
	int ret = accumulator__copy(carried, &acc);

	if (ret)
		return ret;

	for (size_t i = 0; !ret && i < from->n_counters; i++) {
		const struct counter *c = &from->counters[i];
		uint64_t count = c->count - (i < n_base ? base[i] : 0);

		if (!count)
			continue;
		ret = accumulator__add_stack(&acc, from->stacks[c->stack]);
		ret = ret
			      ?: accumulator__add(&acc, c->tgid, c->tid, c->comm,
						  from->stacks[c->stack]->record.hash, count);
	}
	if (ret) {
		accumulator__release(&acc);
		return ret;
	}
	*out = acc;
	return 0;
}

int engine_copy_view(const struct target *view, struct accumulator *out)
{
	return engine_copy_since(&view->acc, &view->of->acc, view->base_counts, view->n_base, out);
}

int engine_copy_view_part(const struct target *view, struct accumulator *out)
{
	static const struct accumulator none;

	return engine_copy_since(&none, &view->of->acc, view->base_counts, view->n_base, out);
}

void engine_turn_view(struct target *view, const struct accumulator *part)
{
	uint64_t due = view->acc.samples + part->samples;

	accumulator__merge(&view->acc, part);
	view->lost[SO_LOSS_MEMORY] += due - view->acc.samples;
	view->n_base = 0;
}

uint64_t engine_target_samples(const struct target *t)
{
	uint64_t sum = t->acc.samples;

	if (!t->of || t->info.state == TARGET_ENDED)
		return sum + t->older.samples + t->forgotten.samples;
	for (size_t i = 0; i < t->of->acc.n_counters; i++)
		sum += since(t, i);
	return sum;
}

void engine_end_view(struct engine *e, struct target *view)
{
	struct accumulator part = { 0 };

	engine_drain(e);
	cuda_targets__end(e->cuda, view);
	engine_hurry_waiting(e, view->of->slot);
	view->end_ns = clock__now_ns();
	engine_target_lost(e, view, &view->kernel);
	if (engine_copy_view_part(view, &part))
		view->lost[SO_LOSS_MEMORY] += engine_target_samples(view) - view->acc.samples;
	else
		engine_turn_view(view, &part);
	accumulator__release(&part);
	/* The target went on meanwhile: what it took is not known to the sample, what came of it is. */
	view->kernel.taken = view->acc.samples + engine_target_lost(e, view, NULL);
	view->info.state = TARGET_ENDED;
	process_label_table__copy(&view->of->labels, &view->labels);
	view->main_file = view->of->main_file;
	view->of = NULL;
}
