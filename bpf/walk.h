/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The unwinder and the Python walker for programs beside the sampler's, which have its tables (bpf/target_maps.h) and a
 * cache of frames of their own. The daemon shares the map `tables`, says where in it the arrays are, and gives
 * `walk_caches` an entry for each that takes stacks at a time.
 */
#ifndef STAKEOUT_BPF_WALK_H
#define STAKEOUT_BPF_WALK_H

#include "bpf/target_maps.h"

/* Where the sampler's arrays are in the map of its globals. */
const volatile __u32 mappings_at = 0;
const volatile __u32 pythons_at = 0;

struct so_mapping no_mapping;

/* The sampler's globals: its .bss. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, SO_MAX_MAPPINGS * sizeof(struct so_mapping) + SO_MAX_PYTHONS * sizeof(struct so_python));
} tables SEC(".maps");

static __always_inline void *table_at(__u32 offset)
{
	__u32 zero = 0;
	void *all = bpf_map_lookup_elem(&tables, &zero);

	return all ? all + offset : NULL;
}

static __always_inline const struct so_mapping *uw_mapping(__u32 i)
{
	const struct so_mapping *all = table_at(mappings_at);

	return all ? &all[i & (SO_MAX_MAPPINGS - 1)] : &no_mapping;
}

static __always_inline struct so_frame_cache *uw_cache(__u32 cpu);

#define UW_SEARCH      __noinline
#define UW_CACHE_SHIFT 10
#include "stakeout/unwinder.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_frame_cache);
} walk_caches SEC(".maps");

/* cpu: the number of the entry; struct so_unwind's. */
static __always_inline struct so_frame_cache *uw_cache(__u32 cpu)
{
	return bpf_map_lookup_elem(&walk_caches, &cpu);
}

#include "stakeout/python_walker.h"

#endif
