/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Return addresses that return probes, of stakeout or of others, have replaced on a thread's stack by that of the
 * kernel's trampoline.
 */
#ifndef STAKEOUT_BPF_RETURN_PROBES_H
#define STAKEOUT_BPF_RETURN_PROBES_H

#include <stdbool.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "stakeout/abi.h"

/* A kernel without uprobes (CONFIG_UPROBES) lacks their types: nothing of them may be read unless this is asked. */
static __always_inline bool has_return_probes(struct task_struct *task)
{
	return bpf_core_field_exists(task->utask);
}

/* What it replaced; returns the next outer one. */
static __always_inline struct return_instance *read_return_probe(struct return_instance *instance,
								 struct so_return_probe *out)
{
	out->at = BPF_CORE_READ(instance, stack);
	out->address = BPF_CORE_READ(instance, orig_ret_vaddr);
	return BPF_CORE_READ(instance, next);
}

/* Those of a thread, innermost first; what there is no room for is left out. */
static __always_inline void copy_return_probes(struct task_struct *task, struct so_return_probe *out)
{
	struct return_instance *instance;

	__builtin_memset(out, 0, SO_MAX_RETURN_PROBES * sizeof(*out));
	if (!has_return_probes(task))
		return;
	instance = BPF_CORE_READ(task, utask, return_instances);
	for (int i = 0; i < SO_MAX_RETURN_PROBES && instance; i++)
		instance = read_return_probe(instance, &out[i]);
}

#endif
