/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the tasks of a process are: each thread state has a circular list of those that it made, each interpreter one
 * of those whose threads have ended. Lists change while they are walked; whether something in one is a task shows when
 * it is read.
 */
#ifndef STAKEOUT_PYTHON_TASK_LIST_H
#define STAKEOUT_PYTHON_TASK_LIST_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_asyncio.h"

/* A place in a list; all 0 but the head: before its first task. */
struct python_task_walk {
	uint64_t head;
	uint64_t at, before;
	bool begun;
	bool ended; /* the whole list was walked */
};

/*
 * Goes on for `room` tasks at most, whose objects' addresses are put into `tasks`; returns how many. -EAGAIN: the list
 * changed meanwhile, or is damaged; those before are in *n also then.
 */
int python_task_list__walk(const struct foreign_memory *memory, const struct python_asyncio *asyncio,
			   struct python_task_walk *walk, uint64_t *tasks, unsigned room, unsigned *n);

#endif
