/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fork, exec and end of targets' processes, as the kernel side reports them or found later. With the engine's lock. */
#ifndef STAKEOUT_PROCESS_LIFE_H
#define STAKEOUT_PROCESS_LIFE_H

#include "daemon/processes/mapping_watch.h"
#include "daemon/targets/targets.h"

struct process_life {
	struct sampler *sampler;
	struct process_table *processes;
	struct targets *targets;
	struct scan_queue *scans;
	struct mapping_watch *mappings;
	struct cuda_targets *cuda;
	struct gpu_memory *gpu_memory;
	int wake_fd; /* eventfd: a target's last process ended */
};

void process_life__event(const struct process_life *l, const struct so_event *event);
void process_life__gone(const struct process_life *l, struct process *p);
/* Processes that have ended unheard are gone. */
void process_life__look(const struct process_life *l);
/* Events were lost: nothing that they would have told may be assumed. */
void process_life__look_at_everything(const struct process_life *l);
/* False, and counted, when as many are watched as can be. */
bool process_life__has_room(const struct process_life *l);

#endif
