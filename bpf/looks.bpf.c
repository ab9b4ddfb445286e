// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Looks at the threads of the watched processes: an iterator over tasks (5.8), read like a file some times a second.
 * Nothing is attached to the processes, and nothing of ours runs when their threads switch. A thread that has not run
 * since the last look stands where it stood, and is passed over.
 */
#include <stddef.h>
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/tasks.h"
#include <bpf/bpf_tracing.h>
#include "stakeout/looks_abi.h"

char LICENSE[] SEC("license") = "GPL";

__u32 mode = SO_LOOK_CHANGED;
__u32 look_number = 0;

/* The epochs of the watched processes, by number: what was noted in another one is of another watch. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* SO_MAX_PROCESSES */
	__type(key, __u32);
	__type(value, __u32);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_MAX_LOOKED_THREADS);
	__type(key, __u32);
	__type(value, struct so_looked);
} looked SEC(".maps");

/* Too large for the stack. One reader at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_look_record);
} scratch SEC(".maps");

/* Read before all else: most threads have not run, and are passed over. */
static __always_inline bool unchanged(const struct so_looked *known, struct task_struct *task, __u32 epoch)
{
	return known && known->epoch == epoch && known->switches == task->nvcsw + task->nivcsw && !known->on_cpu &&
	       !task->on_cpu && known->started_ns == task->start_time;
}

static __always_inline void note(struct so_looked *known, struct so_look_record *r, __u32 epoch)
{
	struct so_looked now = { r->thread.switches, r->started_ns,    r->at_ns, look_number,
				 r->thread.state,    r->thread.on_cpu, epoch };

	if (known)
		*known = now;
	else
		bpf_map_update_elem(&looked, &r->thread.tid, &now, BPF_ANY);
}

static __always_inline void fill(struct task_struct *task, const struct so_looked *known, __u32 epoch,
				 struct so_look_record *r)
{
	r->tgid = task->tgid;
	r->at_ns = bpf_ktime_get_ns();
	r->started_ns = task->start_time;
	r->before_ns = known && known->epoch == epoch && known->started_ns == r->started_ns ? known->at_ns : 0;
	r->run_ns = task->se.sum_exec_runtime;
	/* Without CONFIG_SCHED_INFO it is not known. */
	r->delay_ns = 0;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		r->delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	r->same = unchanged(known, task, epoch);
	read_head(task, &r->thread);
}

/* What did not fit into the reader's buffer is asked for again. */
static __always_inline long write(struct seq_file *seq, struct task_struct *task, struct so_look_record *r)
{
	r->bytes = SO_LOOK_SHORT_BYTES;
	if (r->same || r->thread.on_cpu || mode == SO_LOOK_AGAIN)
		return bpf_seq_write(seq, r, SO_LOOK_SHORT_BYTES);
	r->bytes = sizeof(*r);
	read_stack(task, &r->thread);
	return bpf_seq_write(seq, r, sizeof(*r));
}

SEC("iter/task")
int look(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	__u32 zero = 0, tgid, tid, *epoch;
	struct so_look_record *r;
	struct so_looked *known;

	/* One that has ended waits for nothing; a process's first thread stays as a zombie until the last one ends. */
	if (!task || !task->mm)
		return 0;
	tgid = task->tgid;
	tid = task->pid;
	epoch = bpf_map_lookup_elem(&watched, &tgid);
	if (!epoch)
		return 0;
	known = bpf_map_lookup_elem(&looked, &tid);
	if (mode == SO_LOOK_AGAIN && (!known || known->look != look_number))
		return 0;
	if (mode == SO_LOOK_CHANGED && unchanged(known, task, *epoch) && known->state == task_state(task)) {
		known->at_ns = bpf_ktime_get_ns();
		return 0;
	}
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	fill(task, known, *epoch, r);
	if (!write(seq, task, r) && mode != SO_LOOK_AGAIN)
		note(known, r, *epoch);
	return 0;
}
