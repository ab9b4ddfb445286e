/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of cuda_snapshot.h share. */
#ifndef STAKEOUT_CUDA_SNAPSHOT_PARTS_H
#define STAKEOUT_CUDA_SNAPSHOT_PARTS_H

#include "daemon/cuda/cuda_snapshot.h"
#include "daemon/os/u64_table.h"

/* Entries of one type, each of which begins with its key. */
struct entries {
	unsigned char *bytes;
	size_t n, capacity;
	size_t size, key_size; /* bytes of an entry, and of its key */
	struct u64_table by_hash;
};

struct cuda_snapshot {
	struct entries calls, errors, sites, slots;
	uint64_t seed[2];
};

static inline void *entries__at(const struct entries *entries, size_t i)
{
	return entries->bytes + i * entries->size;
}

/* The entry of the key; a new one is zero but for the key. NULL: no memory. */
void *entries__get(const struct cuda_snapshot *snapshot, struct entries *entries, const void *key);

/* Adds what happened later. */
void cuda_calls__merge(struct so_cuda_calls *into, const struct so_cuda_calls *from);

#endif
