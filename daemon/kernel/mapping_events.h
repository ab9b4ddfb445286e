/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The executable mappings that processes make, as the kernel reports them (PERF_RECORD_MMAP2, by mmap, mprotect and
 * exec): also those that are gone before anyone can read /proc/PID/maps, and memory that is writable as well. One
 * software event a CPU that counts nothing. It sees every process of the machine. munmap and mremap are not reported.
 * Not thread-safe.
 */
#ifndef STAKEOUT_MAPPING_EVENTS_H
#define STAKEOUT_MAPPING_EVENTS_H

#include <sched.h>

#include "daemon/os/proc_maps.h"

struct mapping_events;

struct mapping_event {
	pid_t tgid;
	uint64_t time_ns; /* CLOCK_MONOTONIC, once it was mapped */
	struct proc_map map;
};

/* -errno. */
int mapping_events__new(struct mapping_events **out);
void mapping_events__free(struct mapping_events *events); /* NULL is fine */

/* Reports come from exactly these CPUs from now on; those that are not online are left out. The first -errno. */
int mapping_events__set(struct mapping_events *events, const cpu_set_t *cpus);
/* To poll for input: some ring is a quarter full. */
int mapping_events__fd(const struct mapping_events *events);
/* What has been reported until now is what mapping_events__take() visits. */
void mapping_events__mark(struct mapping_events *events);
/* The path of the event's map is valid during the call. Returns how many reports found no room since the last call. */
uint64_t mapping_events__take(struct mapping_events *events, void (*visit)(void *context, const struct mapping_event *),
			      void *context);

#endif
