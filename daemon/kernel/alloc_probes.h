/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel side of calls of allocators: loads bpf/memory/alloc.bpf.c beside the sampler, whose tables and ring of
 * stacks it uses, makes the maps of each target that is watched, and probes. Not thread-safe, but for the functions
 * that say so: the engine serialises.
 */
#ifndef STAKEOUT_ALLOC_PROBES_H
#define STAKEOUT_ALLOC_PROBES_H

#include "daemon/kernel/alloc_links.h"
#include "daemon/kernel/sampler.h"
#include "stakeout/alloc_abi.h"

struct alloc_probes;

/* -ENOTSUP: the kernel lacks what is needed, in words. Takes some 100 ms. */
int alloc_probes__new(const struct sampler *sampler, struct alloc_probes **out, struct so_error *err);
/* All links must have been freed. */
void alloc_probes__free(struct alloc_probes *p);
CLEANUP_DEFINE(struct alloc_probes *, alloc_probes, alloc_probes__free)

/* Makes the maps of a slot, empty, and begins to count. -errno, and nothing has begun. */
int alloc_probes__begin(struct alloc_probes *p, uint32_t slot);
/* Nothing more is counted; the maps stay. */
void alloc_probes__end(struct alloc_probes *p, uint32_t slot);
/* The maps go as well. */
void alloc_probes__forget(struct alloc_probes *p, uint32_t slot);
/* What the kernel side counts and obeys: shift, seen and until_ns may be set. */
struct so_alloc_slot *alloc_probes__slot(struct alloc_probes *p, uint32_t slot);

/* The thread that places the probes. */
struct alloc_links *alloc_probes__links(struct alloc_probes *p);

/* The maps of a slot, as descriptors of the caller's own, for reading without the engine's lock. */
struct alloc_maps {
	int blocks, sites; /* -1: none */
};
#define ALLOC_MAPS_NONE \
	{               \
		-1, -1  \
	}
/* -ENODATA: the slot has none; -errno. */
int alloc_probes__share(const struct alloc_probes *p, uint32_t slot, struct alloc_maps *out);
void alloc_maps__close(struct alloc_maps *maps);

/* All that was in the maps: each key with the value of the same index. */
struct alloc_reading {
	struct so_alloc_block_key *block_keys;
	struct so_alloc_block *blocks;
	size_t n_blocks;
	struct so_alloc_site_key *site_keys;
	struct so_alloc_site *sites;
	size_t n_sites;
};
/* By any thread. -errno; to be released in any case. */
int alloc_maps__read(const struct alloc_maps *maps, struct alloc_reading *out);
void alloc_reading__release(struct alloc_reading *reading);

#endif
