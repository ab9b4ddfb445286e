/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code objects met in one target's processes, by address and checksum: read once, when a stack first shows them.
 * Forked children share their parent's, whose addresses and bytes they have. Bounded: those used longest ago go first.
 * Not thread-safe: for the engine's lock.
 */
#ifndef STAKEOUT_PYTHON_NAMES_H
#define STAKEOUT_PYTHON_NAMES_H

#include "daemon/python/python_code.h"

struct python_names;

struct python_names_stats {
	uint64_t read;       /* code objects */
	uint64_t stale;      /* whose address had been used again before they could be read */
	uint64_t unreadable; /* garbage, or their process was gone */
	uint64_t evicted;
	uint64_t bytes; /* held now, with what the cache needs itself */
};

/* max_bytes: of names, line tables and the cache together; 0: 16 MiB. Only the latest code object may exceed it. */
int python_names__new(size_t max_bytes, struct python_names **out);

/*
 * The code object with that checksum (not 0), from the cache or read now. NULL with *why one of -ESTALE, -EFAULT,
 * -ENOMEM. -ESTALE is remembered, and -EFAULT where the memory was read and is not what it should be, so that garbage
 * costs one attempt for each address and checksum; memory that cannot be read now can perhaps be read later. The result
 * lives until the next call.
 */
const struct python_code *python_names__get(struct python_names *names, const struct foreign_memory *memory,
					    const struct python_layout *layout, uint64_t address, uint64_t sum,
					    int *why);

struct python_names_stats python_names__stats(const struct python_names *names);
void python_names__free(struct python_names *names);
CLEANUP_DEFINE(struct python_names *, python_names, python_names__free)

#endif
