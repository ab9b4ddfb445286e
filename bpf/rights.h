/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether the current thread may be looked at for the user whose target it is. The daemon asks the same of /proc
 * (daemon/os/process_access.h), but only some time after an exec: this holds from the new program's first instruction.
 */
#ifndef STAKEOUT_BPF_RIGHTS_H
#define STAKEOUT_BPF_RIGHTS_H

#include "bpf/target_maps.h"

#define DUMPABLE_MASK 3 /* of mm->flags; include/linux/mm_types.h, once sched/coredump.h */
#define DUMPABLE_USER 1

static __always_inline bool is_dumpable(struct task_struct *task)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct mm_struct___bitmap *bits = (void *)mm;
	unsigned long flags = 0;

	/* It is exiting: there is no user memory any more that could be looked at. */
	if (!mm)
		return true;
	/* With neither of the two nothing is known, and nobody may look. */
	if (bpf_core_field_exists(mm->flags))
		flags = BPF_CORE_READ(mm, flags);
	else if (bpf_core_field_exists(bits->flags.__mm_flags))
		bpf_core_read(&flags, sizeof(flags), &bits->flags.__mm_flags);
	return (flags & DUMPABLE_MASK) == DUMPABLE_USER;
}

/* The maker of a user namespace has all capabilities there: what a process in it has is no more. */
static __always_inline bool has_capabilities(const struct cred *cred)
{
	__u64 permitted = 0;

	bpf_core_read(&permitted, sizeof(permitted), &cred->cap_permitted);
	return permitted && !BPF_CORE_READ(cred, user_ns, level);
}

static __always_inline bool has_rights_of(const struct so_process *process)
{
	struct task_struct *task = current_task();
	const struct cred *cred = BPF_CORE_READ(task, real_cred);
	__u32 uid = process->uid, gid = process->gid;

	return BPF_CORE_READ(cred, uid.val) == uid && BPF_CORE_READ(cred, euid.val) == uid &&
	       BPF_CORE_READ(cred, suid.val) == uid && BPF_CORE_READ(cred, gid.val) == gid &&
	       BPF_CORE_READ(cred, egid.val) == gid && BPF_CORE_READ(cred, sgid.val) == gid &&
	       !has_capabilities(cred) && is_dumpable(task);
}

static __always_inline bool may_look(const struct so_process *process)
{
	return !(process->flags & SO_PROCESS_OWNED) || has_rights_of(process);
}

#endif
