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
	ret = t->gpu_memory.kept ? gpu_memory_copy_kept(t->gpu_memory.kept, out) : gpu_memory_copy(g, proper, out);
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
