/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes as perf events, two a function, for kernels without links for many uprobes (before 6.6). An event is of one
 * process and, unlike what it would count by itself, its program runs in all threads of that.
 *
 * Opening one takes the kernel some 0.2 ms; closing waits for grace periods, 50 to 110 ms an event, one event after
 * the other whatever the number of threads that close (perf_trace_event_unreg() under event_mutex). So a set that is
 * freed is only given up: a thread closes its events, those that are hit most first, and what is still open is taken
 * over when the same probe is wanted again. Two events of one probe never are there at once, by which a call would
 * count twice.
 *
 * Until it is closed an event's program runs. It must not count by itself: cuda_probes.c takes the process's right away
 * (cuda_owners) when watching ends, and the kinds of calls that are off do not count (struct so_cuda_control).
 */
#ifndef STAKEOUT_CUDA_PERF_EVENTS_H
#define STAKEOUT_CUDA_PERF_EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"

struct cuda_perf_events;
struct cuda_perf_set;

/*
 * The programs for entries and returns, and the hash map of hits by cookie, of u64; all borrowed.
 * -ENOMEM, -errno of making a thread, -ENOTSUP: the kernel has no uprobe events.
 */
int cuda_perf_events__new(int enter_fd, int leave_fd, int heat_fd, struct cuda_perf_events **out);
/* All sets must have been freed. Does not wait for many events to be closed: a process holds them until then. */
void cuda_perf_events__free(struct cuda_perf_events *events);
CLEANUP_DEFINE(struct cuda_perf_events *, cuda_perf_events, cuda_perf_events__free)

/*
 * Events at offsets of the file at path, in the process pid. Cookies of different processes must differ. Waits for
 * the event that is just being closed, if there is one. 0 or -errno.
 */
int cuda_perf_events__attach(struct cuda_perf_events *events, pid_t pid, const char *path, const uint64_t *offsets,
			     const uint64_t *cookies, uint32_t count, struct cuda_perf_set **out);
void cuda_perf_set__free(struct cuda_perf_set *set);
CLEANUP_DEFINE(struct cuda_perf_set *, cuda_perf_set, cuda_perf_set__free)

/* Events that are given up and not closed yet. */
size_t cuda_perf_events__pending(struct cuda_perf_events *events);

#endif
