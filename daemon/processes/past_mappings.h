/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process had mapped before, where it has something else now. A plugin that is loaded where another one was, and
 * that one again: samples go on between the readings of its mappings. The kernel side searches the latest of these
 * pieces where a current one is not what it finds mapped; the daemon's unwinder takes those of the moment of a sample.
 */
#ifndef STAKEOUT_PAST_MAPPINGS_H
#define STAKEOUT_PAST_MAPPINGS_H

#include "daemon/kernel/mapping_events.h"
#include "daemon/processes/mapping_list.h"

/* Until whom it is kept at most. */
#define PAST_MAPPINGS_NS 60000000000ull

/* One that the kernel reported. */
struct mapping_change {
	uint64_t time_ns;
	struct proc_map map; /* owns its path, unless it is "" */
};

/* For the next scan. The oldest are dropped where there are too many. */
void mapping_changes__note(struct process *process, const struct mapping_event *event);
/* Gives the scan those of before the memory map was read. The others are for the next one. -ENOMEM. */
int mapping_changes__take(struct process *process, struct process_scan *scan);
/* The scan came to nothing. */
void mapping_changes__give_back(struct process *process, struct process_scan *scan);
void mapping_changes__free(struct mapping_change *changes, size_t n);

/* scan: about to give the process the mappings in `now`, whose run and uses are still those of before. */
void past_mappings__update(struct file_registry *registry, const struct so_mapping *all, struct process *process,
			   struct process_scan *scan, const struct mapping_list *now);
/* Of a process that has ended: what was reported since the last scan, as far as its files are known. */
void past_mappings__settle(struct file_registry *registry, const struct so_mapping *all, struct process *process);
/* Forgets those that ended before; whether any did. */
bool past_mappings__forget(struct file_registry *registry, struct process *process, uint64_t until_ns);
/* The latest ones, each once, for the kernel side: SO_MAX_PAST_MAPPINGS at most. list: empty; gets no uses. -ENOMEM. */
int past_mappings__list(const struct process *process, struct mapping_list *list);
/* The process's mappings at a moment. *out: sorted, for free(); NULL, and 0, where they are those of its run. */
size_t past_mappings__at(const struct so_mapping *all, const struct process *process, uint64_t when_ns,
			 struct so_mapping **out);

#endif
