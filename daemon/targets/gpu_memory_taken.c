// SPDX-License-Identifier: GPL-2.0-or-later
/* What is known of a target's memory on GPUs, taken for an answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/targets/gpu_memory_internal.h"

uint64_t gpu_memory__refused(struct gpu_memory *g, const struct target *t)
{
	const struct target *proper = target__proper(t);

	if (t->gpu_memory.kept)
		return t->gpu_memory.kept->slot.refused;
	return proper->gpu_memory.maps ? torch_probes__slot(g->probes, proper->slot)->refused : 0;
}

static int copy(struct gpu_memory *g, const struct target *t, struct gpu_memory_taken *out)
{
	const struct target_gpu_memory *memory = &t->gpu_memory;
	int ret = torch_probes__share(g->probes, t->slot, &out->maps);

	ret = ret ?: accumulator__copy(&memory->stacks, &out->stacks);
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
	if (copy(g, t, kept)) {
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

static int copy_kept(const struct gpu_memory_taken *kept, struct gpu_memory_taken *out)
{
	int ret;

	*out = *kept;
	out->maps = (struct torch_maps)TORCH_MAPS_NONE;
	out->stacks = (struct accumulator){ 0 };
	out->series = strdup(kept->series);
	out->shown = strdup(kept->shown);
	ret = out->series && out->shown ? 0 : -ENOMEM;
	ret = ret ?: torch_maps__share(&kept->maps, &out->maps);
	return ret ?: accumulator__copy(&kept->stacks, &out->stacks);
}

int gpu_memory__take(struct gpu_memory *g, struct target *t, struct gpu_memory_taken *out, struct so_error *err)
{
	struct target *proper = t->of ?: t;
	int ret;

	*out = (struct gpu_memory_taken){ .maps = TORCH_MAPS_NONE };
	if (!t->gpu_memory.asked)
		return so_err(err, -ENODATA,
			      "target %u was attached without \"gpu_memory\": its memory on GPUs is not watched",
			      t->id);
	if (!t->gpu_memory.kept && ((t->view && !t->of) || !proper->gpu_memory.maps))
		return so_err(err, -ENODATA, "target %u has ended: what it had in use is known no more", t->id);
	if (proper->gpu_memory.on && proper->info.state == TARGET_SAMPLING)
		gpu_memory_look(g, proper, clock__now_ns());
	ret = t->gpu_memory.kept ? copy_kept(t->gpu_memory.kept, out) : copy(g, proper, out);
	return ret ? so_err(err, ret, "cannot take what is known of its memory: %s", strerror(-ret)) : 0;
}

int gpu_memory__read(struct gpu_memory_taken *taken)
{
	return torch_maps__read(&taken->maps, &taken->reading);
}

void gpu_memory__look_who_lives(const struct gpu_memory *g, struct gpu_memory_taken *taken)
{
	const struct torch_reading *r = &taken->reading;

	for (size_t i = 0; !taken->ended && i < r->n_devices; i++) {
		const struct process *p = process_table__find(g->processes, (pid_t)r->device_keys[i].tgid);

		if (!p || p->gone)
			u64_table__set(&taken->gone, r->device_keys[i].tgid, 1);
	}
}

void gpu_memory_taken__release(struct gpu_memory_taken *taken)
{
	torch_maps__close(&taken->maps);
	accumulator__release(&taken->stacks);
	u64_table__release(&taken->gone);
	torch_reading__release(&taken->reading);
	free(taken->series);
	free(taken->shown);
}
