/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Since when processes have the memory that they have. Not thread-safe. */
#ifndef STAKEOUT_ALLOC_LIVES_H
#define STAKEOUT_ALLOC_LIVES_H

#include "daemon/os/u64_table.h"

#define ALLOC_LIVES_ENDED UINT64_MAX

/* All zero is an empty one. */
struct alloc_lives {
	struct u64_table numbers; /* of a process: index in since_ns */
	uint64_t *since_ns;
	size_t n, capacity;
};

bool alloc_lives__has(const struct alloc_lives *lives, uint32_t tgid);
/* since_ns: when it executed its program, CLOCK_MONOTONIC; 0: not known; ALLOC_LIVES_ENDED: it has ended. -ENOMEM. */
int alloc_lives__add(struct alloc_lives *lives, uint32_t tgid, uint64_t since_ns);
/* Whether what the process allocated then may be in use now; of a process that was not added it may. */
bool alloc_lives__may_use(const struct alloc_lives *lives, uint32_t tgid, uint64_t when_ns);
void alloc_lives__release(struct alloc_lives *lives);

#endif
