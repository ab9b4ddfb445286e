/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where threads wait, and for how long. Some times a second all threads of the targets that ask for it are looked at
 * from outside. The kernel's own sums say how much of the time between two looks a thread ran and how much it was
 * runnable; it waited for the rest, and that goes to the stack at which it is found waiting next. So the parts of each
 * thread add up to its time, and what is sampled is only which stack the waiting belongs to.
 *
 * The functions that look are for one thread, without the engine's lock; all others need it.
 */
#ifndef STAKEOUT_WAITS_H
#define STAKEOUT_WAITS_H

#include <pthread.h>

#include "daemon/kernel/thread_looks.h"
#include "daemon/processes/mapping_watch.h"
#include "daemon/targets/targets.h"
#include "daemon/targets/thread_namer.h"
#include "daemon/targets/user_unwind.h"

#define WAITS_RATE_HZ 20 /* looks a second, at random distances around that; less where they would cost too much */
#define WAITS_TIMED_HZ \
	100 /* while a target keeps times: a wait of a few hundredths of a second is to be seen where it was */

struct waits_parts {
	pthread_mutex_t *lock; /* the engine's */
	struct targets *targets;
	struct process_table *processes;
	struct scan_queue *scans;
	struct mapping_watch *mappings;
	struct user_unwind *unwind;
	struct file_names *files;
	struct thread_namer *namer;
};

struct waits;
int waits__new(const struct waits_parts *parts, struct waits **out);
void waits__free(struct waits *waits);

/* Loads what looks need, where that has not been done yet. Without the lock. */
int waits__load(struct waits *waits, struct so_error *err);
/* One look at all of them. Returns how long it is to be, on average, until the next one, ns. */
uint64_t waits__look(struct waits *waits);

/*
 * Counts the time of all threads up to now, and catches no stack. Without the lock; from any thread, before an answer
 * is made or a target ends.
 */
void waits__update(struct waits *waits);
/* Whether there is a target to be looked at. */
bool waits__wanted(const struct waits *waits);
/* With every drain; at times it counts what is known, and forgets threads that have ended. */
void waits__tick(struct waits *waits);
/* Of a target that ends now, or is looked at no more: its threads are taken to have gone on as they were seen last. */
void waits__end(struct waits *waits, const struct target *t);

/* How often the threads of a target have been looked at, a second: what looks cost may allow less than is aimed at. */
unsigned waits__hz(const struct target *t);

#endif
