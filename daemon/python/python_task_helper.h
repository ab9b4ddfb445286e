/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reading of tasks where it is quick and may hang: in a process that reads memory for the daemon
 * (daemon/os/memory_helper.h). A chain changes within microseconds, so it is not read across processes.
 */
#ifndef STAKEOUT_PYTHON_TASK_HELPER_H
#define STAKEOUT_PYTHON_TASK_HELPER_H

#include <sys/types.h>

#include "daemon/os/memory_helper.h"
#include "daemon/python/python_task.h"
#include "daemon/python/python_task_list.h"

#define PYTHON_TASK_WALK_ROOM 8192u
#define PYTHON_TASK_READ_ROOM 48u

/* Of which process; what is asked for is of its interpreter. */
struct python_task_source {
	pid_t pid;
	const struct python_process *process;
	const struct python_asyncio *asyncio;
};

struct python_task_place {
	uint64_t task;
	uint64_t thread; /* the thread state in whose list it is; 0: an interpreter's */
};

/* One that was read as it was at one moment; else ret is as python_task__read() has it, or -EAGAIN. */
struct python_task_reading {
	int ret;
	struct python_task task;
};

/* What stakeoutd is to have done by its helpers (memory_helper__set_work()). */
size_t python_task_helper__work(const void *request, size_t bytes, void *answer);

/* What is there, all of it or nothing: PYTHON_TASK_PIECE_BYTES at most. */
#define PYTHON_TASK_PIECE_BYTES (64u << 10)
bool python_task_helper__read_memory(pid_t pid, uint64_t address, void *to, size_t bytes);
/* python_task_list__walk(), of PYTHON_TASK_WALK_ROOM. -EFAULT: nobody could read it now. */
int python_task_helper__walk(const struct python_task_source *source, struct python_task_walk *walk, uint64_t *tasks,
			     unsigned *n);
/*
 * Reads n tasks, PYTHON_TASK_READ_ROOM at most. hasty: of a running one no frames. -EFAULT: nobody could read them now.
 */
int python_task_helper__read(const struct python_task_source *source, const struct python_task_place *places,
			     unsigned n, bool hasty, struct python_task_reading *out);

#endif
