/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What iterators over tasks (5.8) read of a thread that may not be the current one. */
#ifndef STAKEOUT_BPF_TASKS_H
#define STAKEOUT_BPF_TASKS_H

#include <stdbool.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "bpf/registers.h"
#include "bpf/probed.h"
#include "bpf/return_probes.h"
#include "stakeout/threads_abi.h"

/* Whether the kernel has bpf_task_pt_regs (5.15). */
const volatile bool have_task_pt_regs = true;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* The field's name before 5.14. */
struct task_struct___before_5_14 {
	volatile long state;
};

#pragma clang attribute pop

static __always_inline __u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return (__u32)BPF_CORE_READ(old, state);
}

/* A thread that is not running has left its user registers at the end of its kernel stack. */
static __always_inline void read_registers(struct task_struct *task, struct so_thread *t)
{
	struct pt_regs *saved, regs;

	if (have_task_pt_regs)
		saved = (struct pt_regs *)bpf_task_pt_regs(task);
	else
		saved = (struct pt_regs *)(BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES) - 1;
	t->user = !bpf_probe_read_kernel(&regs, sizeof(regs), saved) && regs.cs == CODE_SEGMENT_USER64;
	if (!t->user)
		return;
	t->pc = regs.rip;
	t->syscall = (__s64)regs.orig_rax;
	copy_regs(t->regs, &regs);
	if (has_return_probes(task) && task->utask)
		leave_probe_page(task, task->utask, &t->pc, &t->regs[SO_REG_RSP]);
}

static __always_inline void read_head(struct task_struct *task, struct so_thread *t)
{
	t->tid = task->pid;
	t->state = task_state(task);
	t->on_cpu = task->on_cpu;
	t->switches = task->nvcsw + task->nivcsw;
	BPF_CORE_READ_STR_INTO(&t->comm, task, comm);
}

static __always_inline void read_stack(struct task_struct *task, struct so_thread *t)
{
	long bytes;

	t->fsbase = task->thread.fsbase;
	read_registers(task, t);
	copy_return_probes(task, t->returns);
	bytes = t->on_cpu ? 0 : bpf_get_task_stack(task, t->kernel, sizeof(t->kernel), 0);
	t->n_kernel = bytes > 0 ? bytes / 8 : 0;
}

#endif
