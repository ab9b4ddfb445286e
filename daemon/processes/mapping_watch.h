/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel reports of mappings that watched processes make: each asks for a scan. With the engine's lock held.
 */
#ifndef STAKEOUT_MAPPING_WATCH_H
#define STAKEOUT_MAPPING_WATCH_H

#include "daemon/kernel/mapping_events.h"
#include "daemon/processes/scan_queue.h"

/* At least this often the reports are to be taken: files of mappings that do not last are opened meanwhile. */
#define MAPPING_WATCH_NS 50000000ull

struct mapping_watch {
	struct sampler *sampler;
	struct file_registry *files;
	struct process_table *processes;
	struct scan_queue *scans;
	struct mapping_events *events; /* NULL: not begun */
	const char *compared;          /* by samples, in words */
	uint64_t taken_ns;             /* what was reported until then has been taken */
	int error;                     /* why reports are missing, of some CPU or all: -errno; 0: none are */
};

/* -errno. */
int mapping_watch__begin(struct mapping_watch *watch);
void mapping_watch__end(struct mapping_watch *watch);
/* Where targets may run; an empty set ends the reports. */
void mapping_watch__set_cpus(struct mapping_watch *watch, const cpu_set_t *cpus);
/* By what it is known that mappings have changed, for `stakeout status`. */
void mapping_watch__mechanism(const struct mapping_watch *watch, char *out, size_t size);
/* What was reported until now, and what the sampler tells of forks, execs and ends. */
void mapping_watch__take(struct mapping_watch *watch);

#endif
