/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the readers of a target's memory reach it: a process, a core dump or a test's own bytes. */
#ifndef STAKEOUT_FOREIGN_MEMORY_H
#define STAKEOUT_FOREIGN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct foreign_memory {
	/* Reads all of `bytes` or nothing. What is read may change while it is, and may be garbage. */
	bool (*read)(void *context, uint64_t address, void *to, size_t bytes);
	void *context;
};

static inline bool foreign_memory__read(const struct foreign_memory *m, uint64_t address, void *to, size_t bytes)
{
	return m->read(m->context, address, to, bytes);
}

/* A zero where it cannot be read, so for pointers that may be NULL anyway. */
static inline uint64_t foreign_memory__u64(const struct foreign_memory *m, uint64_t address)
{
	uint64_t value = 0;

	return m->read(m->context, address, &value, sizeof(value)) ? value : 0;
}

#endif
