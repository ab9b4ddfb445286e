/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which mappings a walk has to check (stakeout/unwinder.h, which is included before). */
#ifndef STAKEOUT_BPF_CHECK_H
#define STAKEOUT_BPF_CHECK_H

#include "bpf/target_maps.h"

/*
 * After uw_start(). Returns the generation of the current process's mappings; 0: see mappings_generation(). A function
 * of its own, as stack is short.
 */
static __noinline __u64 check_mappings(struct so_unwind *u, const struct so_process *process)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct mm_struct *mm = BPF_CORE_READ(task, mm); /* a number, which the verifier lets be mixed */
	__u64 generation = mm ? mappings_generation(mm) : 0;
	__u16 check;

	if (!u || !process)
		return 0;
	check = process->flags & SO_PROCESS_CUT ? 0 : UW_CHECK_MISSING;
	if (!generation || generation != process->generation)
		check |= UW_CHECK_KNOWN;
	uw_check_mappings(u, check, (__u32)(generation >> 32), process->past);
	return generation;
}

#endif
