// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies of what is known of a target's memory on GPUs: for an answer, or for a view whose target ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/targets/gpu_memory_internal.h"

void gpu_memory_taken__release(struct gpu_memory_taken *taken)
{
	torch_maps__close(&taken->maps);
	accumulator__release(&taken->stacks);
	u64_table__release(&taken->gone);
	u64_table__release(&taken->copies);
	torch_reading__release(&taken->reading);
	free(taken->series);
	free(taken->shown);
}

int gpu_memory_copy(struct gpu_memory *g, const struct target *t, struct gpu_memory_taken *out)
{
	const struct target_gpu_memory *memory = &t->gpu_memory;
	int ret = torch_probes__share(g->probes, t->slot, &out->maps);

	ret = ret ?: accumulator__copy(&memory->stacks, &out->stacks);
	ret = ret ?: u64_table__copy(&memory->copies, &out->copies);
	if (ret)
		return ret;
	out->since_ns = memory->on_ns;
	out->end_ns = memory->on ? clock__now_ns() : memory->end_ns;
	out->ended = !memory->on;
	out->slot = *torch_probes__slot(g->probes, t->slot);
	out->cost_ns = memory->cost_ns;
	out->time_ns = memory->time_ns;
	out->lost = memory->lost;
	out->linked = memory->linked;
	memcpy(out->problem, memory->problem, sizeof(out->problem));
	out->series = memory_series__text(&memory->series, out->since_ns);
	out->shown = memory_series__text(&memory->shown, out->since_ns);
	return out->series && out->shown ? 0 : -ENOMEM;
}

/* The maps have changed no more since the target ended: all that keep them have the same ones. */
static void keep_for(struct gpu_memory *g, const struct target *t, struct target_gpu_memory *view)
{
	struct gpu_memory_taken *kept = calloc(1, sizeof(*kept));

	if (!kept)
		return;
	kept->maps = (struct torch_maps)TORCH_MAPS_NONE;
	if (gpu_memory_copy(g, t, kept)) {
		gpu_memory_taken__release(kept);
		free(kept);
		return;
	}
	kept->ended = true;
	view->kept = kept;
	view->kept_of = t->id;
}

void gpu_memory__keep(struct gpu_memory *g, const struct target *t)
{
	struct target *view;

	TARGETS_EACH(view, g->targets)
	{
		if (view->of == t && view->gpu_memory.wanted)
			keep_for(g, t, &view->gpu_memory);
	}
}

void gpu_memory_drop_kept(struct target_gpu_memory *memory)
{
	if (memory->kept)
		gpu_memory_taken__release(memory->kept);
	free(memory->kept);
	memory->kept = NULL;
}

int gpu_memory_copy_kept(const struct gpu_memory_taken *kept, struct gpu_memory_taken *out)
{
	int ret;

	*out = *kept;
	out->maps = (struct torch_maps)TORCH_MAPS_NONE;
	out->stacks = (struct accumulator){ 0 };
	out->copies = (struct u64_table){ 0 };
	out->series = strdup(kept->series);
	out->shown = strdup(kept->shown);
	ret = out->series && out->shown ? 0 : -ENOMEM;
	ret = ret ?: torch_maps__share(&kept->maps, &out->maps);
	ret = ret ?: u64_table__copy(&kept->copies, &out->copies);
	return ret ?: accumulator__copy(&kept->stacks, &out->stacks);
}

void gpu_memory__forget(struct gpu_memory *g, struct target *t)
{
	if (t->gpu_memory.maps)
		torch_probes__forget(g->probes, t->slot);
	t->gpu_memory.maps = false;
	gpu_memory_drop_kept(&t->gpu_memory);
}
