/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An interpreter in a running process: checks that the memory is what the version's layout says before anything is
 * believed, and finds what belongs to the process: where its threads keep their thread state (thread-specific storage
 * of the C library), and the GIL.
 */
#ifndef STAKEOUT_PYTHON_PROCESS_H
#define STAKEOUT_PYTHON_PROCESS_H

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_image.h"
#include "daemon/python/python_layout.h"

struct python_process {
	struct python_layout layout;
	uint64_t runtime; /* process address of _PyRuntime */
	struct so_python walker;
	struct so_python_place place; /* but for the build, which is 0 */
};

/*
 * bias: process address minus ELF virtual address. -EAGAIN: the interpreter is not ready yet, or is no more (being
 * loaded, starting, finalized; its process may be gone): ask again later. -ENOTSUP: a version, pre-release
 * or C library that is not supported, err names it. -EINVAL: the memory contradicts the layout, err
 * says where.
 */
int python_process__open(const struct foreign_memory *memory, const struct python_image *image, uint64_t bias,
			 struct python_process *out, struct so_error *err);
/* The same of a running process, asked up to five times: its list of threads may change during the walk. */
int python_process__open_running(const struct foreign_memory *memory, const struct python_image *image, uint64_t bias,
				 struct python_process *out, struct so_error *err);

/* The thread state to which a thread's own storage leads; 0: none, or not its own. fsbase: its control block. */
static inline uint64_t python_process__thread(const struct foreign_memory *memory, const struct python_process *process,
					      uint64_t fsbase)
{
	const struct so_python_place *place = &process->place;
	uint64_t storage = place->table ? foreign_memory__u64(memory, fsbase + (uint64_t)place->table) : fsbase;
	uint64_t state = foreign_memory__u64(memory, storage + (uint64_t)place->tss);

	return state && foreign_memory__u64(memory, state + process->walker.thread_id) == fsbase ? state : 0;
}

/* A thread state, for those that list threads without sampling them. */
struct python_thread {
	uint64_t state;     /* its address */
	uint64_t thread_id; /* pthread_self() */
	uint64_t native_id; /* in its own PID namespace; 0: this version does not say */
	uint64_t interpreter;
};

/* All thread states of all interpreters, at most `room`; returns their number or -EFAULT when a list is broken. */
int python_process__threads(const struct foreign_memory *memory, const struct python_process *process,
			    struct python_thread *out, unsigned room);

#endif
