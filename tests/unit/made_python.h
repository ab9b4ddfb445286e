/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of a process with a CPython 3.8, made by hand: an interpreter, thread states, descriptors of their
 * threads.
 */
#ifndef STAKEOUT_TESTS_MADE_PYTHON_H
#define STAKEOUT_TESTS_MADE_PYTHON_H

#include <string.h>

#include "daemon/python/python_process.h"

#define MADE_BASE        0x7f0000000000ull
#define MADE_BYTES       0x10000u
#define MADE_RUNTIME     MADE_BASE
#define MADE_INTERPRETER (MADE_BASE + 0x800)
#define MADE_THREAD(i)   (MADE_BASE + 0x1000 + (i)*0x200ull)
#define MADE_FRAME       (MADE_BASE + 0x2000)
#define MADE_CODE        (MADE_BASE + 0x2200)
#define MADE_TYPE        (MADE_BASE + 0x2400)
#define MADE_TYPE_NAME   (MADE_BASE + 0x2600)
#define MADE_SELF(i)     (MADE_BASE + 0x4000 + (i)*0x1000ull) /* fsbase */
#define MADE_KEY_SLOT(k) (0x310 + (k)*16u)                    /* specific_1stblock[k] */

struct made_python {
	uint8_t bytes[MADE_BYTES];
	const struct python_layout *layout;
	struct foreign_memory memory;
};

static inline bool made_python__read(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct made_python *m = (const struct made_python *)context;

	if (address < MADE_BASE || address - MADE_BASE > MADE_BYTES ||
	    bytes > MADE_BYTES - (address - MADE_BASE))
		return false;
	memcpy(to, m->bytes + (address - MADE_BASE), bytes);
	return true;
}

static inline void made_python__u64(struct made_python *m, uint64_t address, uint64_t value)
{
	memcpy(m->bytes + (address - MADE_BASE), &value, sizeof(value));
}

static inline void made_python__u32(struct made_python *m, uint64_t address, uint32_t value)
{
	memcpy(m->bytes + (address - MADE_BASE), &value, sizeof(value));
}

/* The thread's value of a key, as pthread_setspecific() stores it in glibc. */
static inline void made_python__set(struct made_python *m, unsigned thread, unsigned key, uint64_t value)
{
	made_python__u64(m, MADE_SELF(thread) + MADE_KEY_SLOT(key), 1);
	made_python__u64(m, MADE_SELF(thread) + MADE_KEY_SLOT(key) + 8, value);
}

static inline void made_python__key(struct made_python *m, uint32_t made, uint32_t number)
{
	made_python__u32(m, MADE_RUNTIME + m->layout->runtime_autotss_key, made);
	made_python__u32(m, MADE_RUNTIME + m->layout->runtime_autotss_key + 4, number);
}

/* Thread states 0 to n - 1 in a list, each under key 3; at most 4 of them. */
static inline void made_python__init(struct made_python *m, unsigned n)
{
	const struct python_layout *l = python_layout__of_version(0x0308);

	memset(m, 0, sizeof(*m));
	m->layout = l;
	m->memory = (struct foreign_memory){ made_python__read, m };
	made_python__u32(m, MADE_RUNTIME + l->runtime_initialized, 1);
	made_python__u64(m, MADE_RUNTIME + l->runtime_interpreters_head, MADE_INTERPRETER);
	made_python__u64(m, MADE_RUNTIME + l->runtime_gil, 5000);
	made_python__u64(m, MADE_RUNTIME + l->runtime_gil + l->walker.gil_holder, MADE_THREAD(0));
	made_python__key(m, 1, 3);
	made_python__u64(m, MADE_INTERPRETER + l->interp_threads_head, MADE_THREAD(0));
	for (unsigned i = 0; i < n; i++) {
		uint64_t thread = MADE_THREAD(i), self = MADE_SELF(i);

		made_python__u64(m, thread + l->thread_prev, i ? MADE_THREAD(i - 1) : 0);
		made_python__u64(m, thread + l->thread_next, i + 1 < n ? MADE_THREAD(i + 1) : 0);
		made_python__u64(m, thread + l->walker.interp, MADE_INTERPRETER);
		made_python__u64(m, thread + l->walker.thread_id, self);
		made_python__u64(m, thread + l->walker.frame, MADE_FRAME);
		made_python__u64(m, self, self);
		made_python__u64(m, self + 16, self);
		made_python__u32(m, self + 24, 1);
		made_python__set(m, i, 3, thread);
	}
	made_python__u64(m, MADE_FRAME + l->walker.frame_code, MADE_CODE);
	made_python__u64(m, MADE_CODE + l->object_type, MADE_TYPE);
	made_python__u64(m, MADE_TYPE + l->type_name, MADE_TYPE_NAME);
	memcpy(m->bytes + (MADE_TYPE_NAME - MADE_BASE), "code", 5);
}

#endif
