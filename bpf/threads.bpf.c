// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * All threads of one process, as they are now: an iterator over tasks (5.8), read like a file. Nothing is attached to
 * the process. A thread that is not running has left its user registers at the end of its kernel stack.
 */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/registers.h"
#include "bpf/return_probes.h"
#include "stakeout/threads_abi.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 wanted_tgid = 0;
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

/* Too large for the stack. One reader at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_thread);
} scratch SEC(".maps");

static __always_inline __u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return (__u32)BPF_CORE_READ(old, state);
}

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
	copy_regs(t->regs, &regs);
}

SEC("iter/task")
int threads(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct so_thread *t;
	__u32 zero = 0;
	long bytes;

	if (!task || task->tgid != wanted_tgid)
		return 0;
	t = bpf_map_lookup_elem(&scratch, &zero);
	if (!t)
		return 0;
	t->tid = task->pid;
	t->state = task_state(task);
	t->on_cpu = task->on_cpu;
	t->switches = task->nvcsw + task->nivcsw;
	t->fsbase = task->thread.fsbase;
	BPF_CORE_READ_STR_INTO(&t->comm, task, comm);
	read_registers(task, t);
	copy_return_probes(task, t->returns);
	bytes = t->on_cpu ? 0 : bpf_get_task_stack(task, t->kernel, sizeof(t->kernel), 0);
	t->n_kernel = bytes > 0 ? bytes / 8 : 0;
	bpf_seq_write(seq, t, sizeof(*t));
	return 0;
}
