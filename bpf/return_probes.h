/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Return addresses that return probes, of stakeout or of others, have replaced on a thread's stack by that of the
 * kernel's trampoline.
 */
#ifndef STAKEOUT_BPF_RETURN_PROBES_H
#define STAKEOUT_BPF_RETURN_PROBES_H

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "stakeout/abi.h"

/* Those of a thread, innermost first; what there is no room for is left out. */
static __always_inline void copy_return_probes(struct task_struct *task, struct so_return_probe *out)
{
	struct return_instance *instance = BPF_CORE_READ(task, utask, return_instances);

	for (int i = 0; i < SO_MAX_RETURN_PROBES; i++) {
		out[i].at = instance ? BPF_CORE_READ(instance, stack) : 0;
		out[i].address = instance ? BPF_CORE_READ(instance, orig_ret_vaddr) : 0;
		instance = instance ? BPF_CORE_READ(instance, next) : NULL;
	}
}

#endif
