/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Maps of the targets and the ring for their stacks, which sampler and CUDA probes share by name, and their reading. */
#ifndef STAKEOUT_BPF_TARGET_MAPS_H
#define STAKEOUT_BPF_TARGET_MAPS_H

#include <stdbool.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "bpf/mapped.h"
#include "bpf/probed.h"
#include "bpf/return_probes.h"
#include "stakeout/sampler_abi.h"

/* Whether it has bpf_get_current_task_btf (5.11); without it the task is read by bpf_probe_read_kernel. */
const volatile bool have_task_btf = true;

/* Beside the sampler's other arrays, which share a map: a map's value was bounded to 4 MiB before 5.18. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, SO_MAX_RULES * sizeof(struct so_unwind_rule));
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SO_MAX_SHARDS);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, BPF_F_MMAPABLE);
			__uint(max_entries, 1);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, SO_SHARD_WORDS * sizeof(__u32));
		});
} shards SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SO_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct so_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SO_STACKS_RING_BYTES); /* the daemon sets more where there are many CPUs */
} stacks SEC(".maps");

static __always_inline struct task_struct *current_task(void)
{
	return have_task_btf ? bpf_get_current_task_btf() : (struct task_struct *)bpf_get_current_task();
}

/* NULL: no probe has hit the thread yet. */
static __always_inline struct uprobe_task *probed_task(struct task_struct *task)
{
	if (!has_return_probes(task))
		return NULL;
	return have_task_btf ? task->utask : BPF_CORE_READ(task, utask);
}

/* A function of its own, so that it is verified once. */
__noinline __u64 true_return(__u64 at)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct return_instance *instance;
	struct so_return_probe probe;

	if (!has_return_probes(task))
		return 0;
	instance = BPF_CORE_READ(task, utask, return_instances);
	for (int i = 0; i < SO_MAX_RETURN_PROBES && instance; i++) {
		instance = read_return_probe(instance, &probe);
		if (probe.at == at)
			return probe.address;
	}
	return 0;
}

#define UW_TRUE_RETURN(at) true_return(at)
#define UW_MAPPED(at)      mapped_id(at)

static __always_inline bool uw_read_user(void *dst, __u32 bytes, __u64 address)
{
	if (bytes > 1024)
		return false;
	return !bpf_probe_read_user(dst, bytes, (void *)address);
}

static __always_inline const __u32 *uw_shard(__u32 shard)
{
	__u32 zero = 0;
	void *map = bpf_map_lookup_elem(&shards, &shard);

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

static __always_inline const struct so_unwind_rule *uw_rule(__u32 rule)
{
	__u32 zero = 0;
	const struct so_unwind_rule *all = bpf_map_lookup_elem(&rules, &zero);

	return all ? &all[rule & (SO_MAX_RULES - 1)] : NULL;
}

static __always_inline bool py_read(void *dst, __u32 bytes, __u64 address)
{
	return !bpf_probe_read_user(dst, bytes, (void *)address);
}

static __always_inline struct mm_struct *memory_map(struct task_struct *task)
{
	return have_task_btf ? task->mm : BPF_CORE_READ(task, mm);
}

#endif
