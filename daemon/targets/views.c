// SPDX-License-Identifier: GPL-2.0-or-later
/* Recordings of processes that are targets already: the difference between two moments of the target's counters. */

#include "daemon/targets/samples.h"

int views__begin(struct samples *view, struct samples *of)
{
	int ret = samples_base__take(&view->base, &of->acc);

	if (ret)
		return ret;
	samples__lost(of, &view->base_slot);
	view->base_wall_lost_ns = of->wall_lost_ns;
	view->of = of;
	return 0;
}

int views__copy_part(const struct samples *view, struct accumulator *out)
{
	return samples__since(NULL, &view->of->acc, &view->base, out);
}

void views__turn(struct samples *view, const struct accumulator *part)
{
	uint64_t due = view->acc.samples + part->samples;

	accumulator__merge(&view->acc, part);
	samples__lose(view, SO_LOSS_MEMORY, due - view->acc.samples);
	view->base.n = 0;
}

void views__end(struct samples *view)
{
	struct accumulator part = { 0 };
	struct so_slot slot;

	samples__lost(view, &slot);
	/* Its own losses are added to these whenever they are asked for. */
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
		slot.lost[i] -= view->lost[i];
	if (views__copy_part(view, &part))
		samples__lose(view, SO_LOSS_MEMORY, samples__count(view) - view->acc.samples);
	else
		views__turn(view, &part);
	accumulator__release(&part);
	view->kernel = slot;
	view->wall_lost_ns = samples__wall_lost_ns(view);
	view->of = NULL;
	view->ended = true;
	/* The target went on meanwhile: what it took is not known to the sample, what came of it is. */
	view->kernel.taken = view->acc.samples + samples__lost(view, NULL);
}
