// SPDX-License-Identifier: GPL-2.0-or-later
/* What the engine's targets share: memory for samples, and places for processes. */
#include "daemon/engine/engine_internal.h"
#include "daemon/os/limits.h"

/*
 * The memory that is left is divided among the targets that can use it, so that they stay within it together until they are
 * looked at again. What one does not use, the next division gives to all.
 */
void engine_share_sample_bytes(struct engine *e)
{
	size_t used = 0, share = 0, most;
	unsigned n = 0;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (!e->targets[i])
			continue;
		used += engine_target_bytes(e->targets[i]);
		n += e->targets[i]->info.state != TARGET_ENDED;
	}
	limits__set(LIMIT_SAMPLE_BYTES, used);
	if (n && used < ENGINE_ALL_SAMPLES_BYTES)
		share = (ENGINE_ALL_SAMPLES_BYTES - used) / n;
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (!e->targets[i] || e->targets[i]->info.state == TARGET_ENDED)
			continue;
		most = e->targets[i]->acc.bytes + share;
		most = most < ENGINE_ACCUMULATOR_BYTES ? most : ENGINE_ACCUMULATOR_BYTES;
		e->targets[i]->acc.max_bytes = most ? most : 1; /* 0 would be no bound */
	}
}

bool engine_has_room_for_process(struct engine *e)
{
	bool room = process_table__count(e->processes) < SO_MAX_PROCESSES;

	if (!room)
		limits__hit(LIMIT_PROCESSES, 1);
	return room;
}
