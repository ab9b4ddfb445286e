/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A look at all tasks of a process's event loops (.design/tasks.md). Without the engine's lock. */
#ifndef STAKEOUT_TASK_LOOK_H
#define STAKEOUT_TASK_LOOK_H

#include <sys/types.h>

#include "daemon/os/u64_table.h"
#include "daemon/python/python_task_helper.h"
#include "stakeout/error.h"

#define TASK_LOOK_MOST    100000u
#define TASK_LOOK_THREADS 1024u
#define TASK_LOOK_NS      4000000000ull /* of reading */

struct task_look {
	struct python_thread threads[TASK_LOOK_THREADS];
	bool runs_loop[TASK_LOOK_THREADS]; /* the thread is within an event loop */
	unsigned n_threads;
	struct python_task_place *places; /* of all tasks that were found */
	size_t n, capacity;
	uint64_t factor;                     /* odd, at random: the target chooses addresses, not places in tables */
	struct u64_table known;              /* task_look__key() of a task's address: its place */
	size_t seen, changed, unread, ended; /* of n: those that were reported, and why others were not */
	bool more;                           /* there are more tasks or threads than are looked at */
	bool list_changed;                   /* a list was never seen whole: there may be more tasks */
	uint64_t took_ns;
};

/* For each task that was seen as it was at one moment; false ends the look. memory: of the process. */
typedef bool (*task_look_found)(void *context, const struct foreign_memory *memory,
				const struct python_task_place *place, const struct python_task *task);

/* Of an address, for a u64_table. */
static inline uint64_t task_look__key(const struct task_look *look, uint64_t address)
{
	return address * look->factor;
}

/* Fails as python_asyncio__read(), and with -ENOMEM. look: zeroed; to be released in any case. */
int task_look__at(pid_t pid, const struct python_process *process, uint64_t table, struct task_look *look,
		  task_look_found found, void *context, struct so_error *err);
/* The thread of a place, as its own PID namespace numbers it; 0: it has ended. */
uint64_t task_look__thread(const struct task_look *look, const struct python_task_place *place);
void task_look__release(struct task_look *look);

#endif
