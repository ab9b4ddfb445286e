/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the maps of bpf/cuda/cuda.bpf.c held at one moment, and arithmetic on it: what happened between two moments,
 * with the figures of processes that have ended, scaled where the probes were there in on-windows alone.
 *
 * The maps are read while threads write them, so one entry's fields may differ by the call that is being counted. The
 * buckets decide: so_cuda_calls.calls is made the sum of its buckets when an entry is added.
 */
#ifndef STAKEOUT_CUDA_SNAPSHOT_H
#define STAKEOUT_CUDA_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/cuda/cuda_threads.h"
#include "stakeout/cleanup.h"
#include "stakeout/cuda_abi.h"

struct cuda_snapshot;

struct cuda_calls_entry {
	struct so_cuda_key key;
	struct so_cuda_calls calls;
};

struct cuda_error_entry {
	struct so_cuda_error_key key;
	uint64_t count;
};

struct cuda_site_entry {
	struct so_cuda_site_key key;
	struct so_cuda_site site;
};

struct cuda_slot_entry {
	uint32_t slot;
	struct so_cuda_slot sum; /* of all CPUs */
};

/* A slot is nothing but 64-bit counters. */
#define CUDA_SLOT_WORDS (sizeof(struct so_cuda_slot) / sizeof(__u64))
_Static_assert(offsetof(struct so_cuda_slot, lost) == 11 * sizeof(__u64) &&
		       CUDA_SLOT_WORDS == 11 + SO_CUDA_LOSS_COUNT + 3 * SO_CUDA_UNITS + 1,
	       "all of struct so_cuda_slot is counted");

int cuda_snapshot__new(struct cuda_snapshot **out);
void cuda_snapshot__free(struct cuda_snapshot *snapshot);
CLEANUP_DEFINE(struct cuda_snapshot *, cuda_snapshot, cuda_snapshot__free)

/*
 * Each takes copies; 0 or -ENOMEM. An entry added before under the same key is replaced, not summed: iterating over a
 * hash map that others change may come by a key twice. Of a call's entry the octave must be SO_CUDA_UNTIMED at most:
 * -EINVAL.
 */
int cuda_snapshot__add_calls(struct cuda_snapshot *snapshot, const struct so_cuda_key *key,
			     const struct so_cuda_calls *calls);
int cuda_snapshot__add_error(struct cuda_snapshot *snapshot, const struct so_cuda_error_key *key, uint64_t count);
int cuda_snapshot__add_site(struct cuda_snapshot *snapshot, const struct so_cuda_site_key *key,
			    const struct so_cuda_site *site);
/* per_cpu: n_cpus values, as bpf_map_lookup_elem() gives them for a per-CPU map; they are summed. */
int cuda_snapshot__add_slot(struct cuda_snapshot *snapshot, uint32_t slot, const struct so_cuda_slot *per_cpu,
			    size_t n_cpus);

/* Borrowed until the snapshot is next changed; NULL when there is none. */
const struct so_cuda_calls *cuda_snapshot__find_calls(const struct cuda_snapshot *snapshot,
						      const struct so_cuda_key *key);
const uint64_t *cuda_snapshot__find_error(const struct cuda_snapshot *snapshot, const struct so_cuda_error_key *key);
const struct so_cuda_site *cuda_snapshot__find_site(const struct cuda_snapshot *snapshot,
						    const struct so_cuda_site_key *key);
const struct so_cuda_slot *cuda_snapshot__find_slot(const struct cuda_snapshot *snapshot, uint32_t slot);

/* All entries, *n of them, in no particular order; borrowed until the snapshot is next changed. */
const struct cuda_calls_entry *cuda_snapshot__calls(const struct cuda_snapshot *snapshot, size_t *n);
const struct cuda_error_entry *cuda_snapshot__errors(const struct cuda_snapshot *snapshot, size_t *n);
const struct cuda_site_entry *cuda_snapshot__sites(const struct cuda_snapshot *snapshot, size_t *n);

/*
 * What happened after `base` and up to `now`, as a new snapshot. -ENOMEM.
 *
 * Counters are differences. An entry that has fewer calls (errors, allocations) now than in `base` began anew: it
 * belongs to a later process with the same number, and is taken whole. Entries without calls (errors) since are left
 * out; slots are all kept. min_ns and max_ns cannot be subtracted. They are exact where all of the octave's calls
 * came after `base`, where the extreme changed since, and where there was one call since; otherwise min_ns is the
 * highest value of which it is certain that no call was shorter, max_ns the lowest of which none was longer, and both
 * lie in the bucket of the true value. (All this up to the call that was being counted when the map was read.) Grid,
 * block, stream and caller are those of now. Sites: allocations, frees and bytes are differences; current_bytes is
 * what is allocated now, and peak_bytes the most that was ever allocated at once since the site was first seen, not
 * since `base`. A site stays while anything happened at it since, or memory of it is allocated.
 */
int cuda_snapshot__subtract(const struct cuda_snapshot *now, const struct cuda_snapshot *base,
			    struct cuda_snapshot **out);

/*
 * Adds the entries of process `tgid` (0: all entries, and the slots) to those of `into`, so that they outlive their
 * removal from the maps. Where both have an entry, as when a process's number is used again, counters add up; grid,
 * block, stream, caller and current_bytes are those of `from`, peak_bytes the larger one. current_bytes of a process
 * that has ended is what it had when it ended. -ENOMEM: some entries may have been added.
 */
int cuda_snapshot__merge(struct cuda_snapshot *into, const struct cuda_snapshot *from, uint32_t tgid);

/*
 * Moves the calls and errors of process `tgid` to `into`, as those of process 0, thread 0, library 0 and no kernel;
 * its sites are dropped. -ENOMEM: some were added, and all stay.
 */
int cuda_snapshot__fold(struct cuda_snapshot *from, uint32_t tgid, struct cuda_snapshot *into);

/* Adds up the calls of these threads (cuda_threads__key()) as thread 0 of their processes. -ENOMEM: all stay. */
int cuda_snapshot__fold_threads(struct cuda_snapshot *snapshot, const struct u64_table *threads);
/* What its entries take. */
size_t cuda_snapshot__bytes(const struct cuda_snapshot *snapshot);

/* Memory is not estimated: that of the sites of an estimate becomes what `of` has, or none. */
void cuda_snapshot__take_memory(struct cuda_snapshot *estimate, const struct cuda_snapshot *of);

/* Removes the entries of process `tgid`. Where there is no memory for that, they stay. */
void cuda_snapshot__forget(struct cuda_snapshot *snapshot, uint32_t tgid);

/*
 * Estimates all calls from those seen in 1/factor of the time; factor: 0 or more, else -EINVAL.
 *
 * Counts are rounded to whole ones with a random start in 0 <= start < 1: each bucket's expected count is factor ×
 * count, however often parts are scaled and added up, and the calls of one process and API in one library are within
 * 1 of factor × calls. The sum of an entry's buckets is its calls; its times, bytes, blocks, threads and squares keep
 * their mean per call; its errors are its calls at most. min_ns and max_ns stay.
 *
 * units: which of them, 1 << SO_CUDA_UNIT(); ~0u: all; of a site, those of its kind.
 *
 * Of a site allocations, frees and bytes are scaled, but not current_bytes and peak_bytes: memory whose release was
 * not seen cannot be told from memory that is held. Slots stay: they count what the probes did. -ENOMEM leaves all as
 * it was.
 */
int cuda_snapshot__scale(struct cuda_snapshot *snapshot, uint32_t units, double factor, double start);

/*
 * Gives calls that were not timed (SO_CUDA_UNTIMED) the times of those of their row that were, or of their API where
 * none of the row was. Counts and bytes stay; errors are scaled. For what is reported: it does not add up. -ENOMEM
 * leaves all as it was.
 */
int cuda_snapshot__spread_untimed(struct cuda_snapshot *snapshot);

#endif
