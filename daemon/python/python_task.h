/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A task of asyncio, read from outside: its name, its coroutines' frames, who awaits it. The process goes on meanwhile,
 * so what is read may be of several moments: the caller's `memory` notes each read, and the result is good only if all
 * of them give the same once more (python_noted_memory.h).
 */
#ifndef STAKEOUT_PYTHON_TASK_H
#define STAKEOUT_PYTHON_TASK_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_asyncio.h"
#include "daemon/python/python_process.h"

#define PYTHON_TASK_NAME_BYTES 128 /* of UTF-8, with the NUL; longer names are cut there, between characters */
#define PYTHON_TASK_FRAMES     48  /* those further in are left out */
#define PYTHON_TASK_WAITERS    8

enum python_task_state {
	PYTHON_TASK_CREATED, /* has not run yet */
	PYTHON_TASK_READY,   /* gave way, and runs when it is its turn */
	PYTHON_TASK_WAITING,
	PYTHON_TASK_RUNNING,
	PYTHON_TASK_ENDED, /* its coroutine has; it is about to leave the list */
};

struct python_task_frame {
	uint64_t code, sum;   /* a code object's address and checksum */
	uint32_t instruction; /* in code units, or SO_PYTHON_NO_INSTRUCTION */
};

struct python_task {
	char name[PYTHON_TASK_NAME_BYTES];
	enum python_task_state state;
	struct python_task_frame frames[PYTHON_TASK_FRAMES]; /* outermost first: the task's own coroutine */
	unsigned n_frames;
	bool cut;                                 /* it has more of them */
	bool foreign;                             /* what its outermost awaits is none of Python's coroutines */
	uint64_t awaited_by[PYTHON_TASK_WAITERS]; /* addresses of tasks, also through futures such as gather()'s */
	unsigned n_awaited_by;
	bool more_waiters;
};

/* What a type is, by its name. */
enum python_type_kind {
	PYTHON_TYPE_OTHER,
	PYTHON_TYPE_COROUTINE, /* or a generator, also an asynchronous one: each has a frame */
	PYTHON_TYPE_WRAPPER,   /* leads to one: asend() of an asynchronous generator, __await__() of a coroutine */
	PYTHON_TYPE_STR,
	PYTHON_TYPE_INT,
};

#define PYTHON_TASK_TYPES 64

struct python_task_reader {
	struct foreign_memory memory; /* for all that a task is made of */
	struct foreign_memory types;  /* for what stays as it is */
	const struct python_process *process;
	const struct python_asyncio *asyncio;
	bool hasty; /* of a running task no frames, which change all the time */
	struct {
		uint64_t address; /* 0: none */
		enum python_type_kind kind;
	} known[PYTHON_TASK_TYPES];
};

/*
 * task: the object's address; thread: the thread state in whose list it is, 0: in its interpreter's. -EAGAIN: it is
 * being changed, or is no task (any more); -EFAULT: it cannot be read. *out is garbage then.
 */
int python_task__read(struct python_task_reader *reader, uint64_t task, uint64_t thread, struct python_task *out);

#endif
