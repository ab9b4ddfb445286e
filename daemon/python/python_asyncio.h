/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where CPython 3.14 and 3.15 keep asyncio's tasks and the frames of coroutines. They describe it themselves: in
 * _Py_DebugOffsets (Include/internal/pycore_debug_offsets.h) and in a table of the module _asyncio, in the section
 * .AsyncioDebug (Modules/_asynciomodule.c). Either may be damaged or made up: what is used is checked. All in bytes.
 */
#ifndef STAKEOUT_PYTHON_ASYNCIO_H
#define STAKEOUT_PYTHON_ASYNCIO_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_process.h"

/* States of a coroutine's frame (PyFrameState, Include/internal/pycore_frame.h), as both versions have them. */
enum python_frame_state {
	PYTHON_FRAME_CREATED,
	PYTHON_FRAME_SUSPENDED,  /* at a bare yield */
	PYTHON_FRAME_DELEGATING, /* it waits for another object, which is on its stack */
	PYTHON_FRAME_EXECUTING,
	PYTHON_FRAME_CLEARED,
	PYTHON_FRAME_UNKNOWN, /* no such number */
};

struct python_asyncio {
	uint16_t version;
	/* TaskObj, whose first part is a FutureObj's */
	uint16_t task_bytes;
	uint16_t name, awaited_by, coro;     /* PyObject * */
	uint16_t is_task, awaited_by_is_set; /* char */
	uint16_t node;                       /* struct llist_node: next, prev */
	/* struct llist_node of an interpreter's and of a thread's tasks; what a thread runs: PyObject * */
	uint32_t interpreter_tasks, thread_tasks, thread_loop, thread_task;
	/* PyGenObject, also of coroutines and asynchronous generators; its last part is its frame */
	uint16_t gen_frame, gen_state;
	uint16_t frame_stack;         /* of a frame: behind the uppermost object of its stack */
	uint16_t set_used, set_mask;  /* PySetObject: Py_ssize_t */
	uint16_t set_table;           /* setentry *: PyObject *, hash */
	uint16_t int_tag, int_digits; /* PyLongObject: uintptr_t, uint32_t[] of 30 bits each */
	uint16_t delegate_slot;       /* what a frame waits for: so many objects below the end of its stack */
};

#define PYTHON_ASYNCIO_OLDEST 0x030eu

/* The ELF virtual address of the table in a file; 0: it has none. */
uint64_t python_asyncio__find(int fd);

/*
 * table: its address in the process. -ENOTSUP: a version that does not have it, which err names; -EINVAL: one of the
 * tables is damaged, err says which; -EFAULT: the memory cannot be read.
 */
int python_asyncio__read(const struct foreign_memory *memory, const struct python_process *process, uint64_t table,
			 struct python_asyncio *out, struct so_error *err);

enum python_frame_state python_asyncio__frame_state(const struct python_asyncio *asyncio, uint8_t state);

#endif
