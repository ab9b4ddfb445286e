// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * All threads of one process, as they are now: an iterator over tasks (5.8), read like a file. Nothing is attached to
 * the process. A thread that is not running has left its user registers at the end of its kernel stack.
 */
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/tasks.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

__u32 wanted_tgid = 0;

/* Too large for the stack. One reader at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_thread);
} scratch SEC(".maps");

SEC("iter/task")
int threads(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct so_thread *t;
	__u32 zero = 0;

	/* A first thread that has ended stays as a zombie, without memory, until the last one ends. */
	if (!task || task->tgid != wanted_tgid || !task->mm)
		return 0;
	t = bpf_map_lookup_elem(&scratch, &zero);
	if (!t)
		return 0;
	read_head(task, t);
	read_stack(task, t);
	bpf_seq_write(seq, t, sizeof(*t));
	return 0;
}
