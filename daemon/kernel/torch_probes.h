/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel side of PyTorch's memory on GPUs: loads bpf/memory/torch.bpf.c beside the sampler, whose tables and ring
 * of stacks it uses, makes the maps of each target that is watched, and probes on libraries. Not thread-safe, but for
 * the functions that say so: the engine serialises.
 */
#ifndef STAKEOUT_TORCH_PROBES_H
#define STAKEOUT_TORCH_PROBES_H

#include "daemon/kernel/sampler.h"
#include "daemon/os/u64_table.h"
#include "stakeout/torch_abi.h"

/*
 * What the kernel takes for one hit of a probe besides its program, ns: the trap and the emulated instruction
 * (.design/gpu-memory.md has the measurement).
 */
#define TORCH_PROBES_HIT_NS 900

struct torch_probes;
struct torch_link;

/* -ENOTSUP: the kernel lacks what is needed, in words. Takes some 100 ms. */
int torch_probes__new(const struct sampler *sampler, struct torch_probes **out, struct so_error *err);
/* All links must have been freed. */
void torch_probes__free(struct torch_probes *p);
CLEANUP_DEFINE(struct torch_probes *, torch_probes, torch_probes__free)

/* Makes the maps of a slot, empty, and begins to count. -errno, and nothing has begun. */
int torch_probes__begin(struct torch_probes *p, uint32_t slot);
/* Nothing more is counted; the maps stay. */
void torch_probes__end(struct torch_probes *p, uint32_t slot);
/* The maps go as well. */
void torch_probes__forget(struct torch_probes *p, uint32_t slot);
/* A process has executed another program: what it had on devices is nobody's. */
void torch_probes__executed(struct torch_probes *p, uint32_t slot, pid_t tgid);
/* What the kernel side counts and obeys: mask, epoch and budget_ns may be set. */
struct so_torch_slot *torch_probes__slot(struct torch_probes *p, uint32_t slot);

/* Offsets in the file where the probes go; refused 0: none for this. */
struct torch_places {
	uint64_t memory, refused;
};
/* fd: of the file, borrowed. In that process alone. -errno of the kernel. */
int torch_probes__attach(struct torch_probes *p, pid_t pid, int fd, const struct torch_places *places,
			 struct torch_link **out);
/* The probes go soon; NULL is fine. */
void torch_link__free(struct torch_link *link);

/* The maps of a slot, as descriptors of the caller's own, for reading without the engine's lock. */
struct torch_maps {
	int blocks, sites, devices; /* -1: none */
};
#define TORCH_MAPS_NONE              \
	{                            \
		.blocks = -1, -1, -1 \
	}
/* -ENODATA: the slot has none; -errno. */
int torch_probes__share(const struct torch_probes *p, uint32_t slot, struct torch_maps *out);
/* The same maps once more. */
int torch_maps__share(const struct torch_maps *maps, struct torch_maps *out);
void torch_maps__close(struct torch_maps *maps);

/* All that was in the maps: each key with the value of the same index. */
struct torch_reading {
	struct so_torch_block_key *block_keys;
	struct so_torch_block *blocks;
	size_t n_blocks;
	struct so_torch_site_key *site_keys;
	struct so_torch_site *sites;
	size_t n_sites;
	struct so_torch_device_key *device_keys;
	struct so_torch_device *devices;
	size_t n_devices;
};
/*
 * Whether a device (by its index in the reading) is that of a forked process which has never allocated: what it gives
 * back are copies of the other's blocks, and its totals are the other's, which is there as well. copies: by process,
 * whose memory it has a copy of (0: nobody's); NULL: none has.
 */
bool torch_reading__is_copy(const struct torch_reading *reading, size_t device, const struct u64_table *copies);
/* By any thread. -errno; to be released in any case. */
int torch_maps__read(const struct torch_maps *maps, struct torch_reading *out);
/* The same of devices alone, of a slot that has maps: few. */
int torch_probes__read_devices(const struct torch_probes *p, uint32_t slot, struct torch_reading *out);
void torch_reading__release(struct torch_reading *reading);

#endif
