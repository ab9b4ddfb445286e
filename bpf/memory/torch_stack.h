/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stack of a thread that asks for memory of a GPU, taken at the probe, with the sampler's tables
 * (bpf/target_maps.h), unwinder and Python walker. A probe's program may be preempted, and another thread take its own
 * on the same CPU: so there is more than one buffer.
 */
#ifndef STAKEOUT_BPF_TORCH_STACK_H
#define STAKEOUT_BPF_TORCH_STACK_H

#include "bpf/registers.h"
#include "bpf/walk.h"
#include "stakeout/torch_abi.h"

#define BUFFERS_A_CPU 2

/*
 * Python frames wake the daemon, at most this often: code objects' names are to be read before their memory is reused.
 */
const volatile __u64 python_wakeup_ns = 20000000;

__u64 last_wakeup_ns = 0;

/* One holder at a time. */
struct stack_buffer {
	__u32 busy;
	__u32 pad;
	struct so_unwind u;
	struct so_python_walk w;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BUFFERS_A_CPU);
	__type(key, __u32);
	__type(value, struct stack_buffer);
} torch_buffers SEC(".maps");

struct walk {
	struct stack_buffer *b;
	const struct so_python *p;
};

static long step(__u32 i, void *ctx)
{
	struct walk *w = ctx;

	return uw_step(&w->b->u);
}

static long step_python(__u32 i, void *ctx)
{
	struct walk *w = ctx;

	return py_step(&w->b->w, w->p);
}

static __always_inline struct stack_buffer *take_buffer(__u32 *number)
{
	__u32 first = bpf_get_smp_processor_id() * BUFFERS_A_CPU;

#pragma unroll
	for (__u32 i = 0; i < BUFFERS_A_CPU; i++) {
		__u32 at = first + i;
		struct stack_buffer *b = bpf_map_lookup_elem(&torch_buffers, &at);

		if (b && !__sync_lock_test_and_set(&b->busy, 1)) {
			*number = at;
			return b;
		}
	}
	return NULL;
}

static __always_inline void release_buffer(struct stack_buffer *b)
{
	*(volatile __u32 *)&b->busy = 0;
}

static __always_inline __u64 walk_python(struct stack_buffer *b, const struct so_process *process, __u64 hash,
					 __u32 tgid)
{
	const struct so_python *all = table_at(pythons_at);
	struct walk walk = { .b = b };

	b->u.python = 0;
	b->w.n = 0;
	b->w.state = SO_PYTHON_STATE_NONE;
	b->w.flags = 0;
	if (!process->python.build || !all)
		return hash;
	walk.p = &all[(process->python.build - 1) & (SO_MAX_PYTHONS - 1)];
	b->w.state = SO_PYTHON_STATE_DEPTH;
	if (!py_begin(&b->w, walk.p, &process->python, bpf_get_current_task_btf()->thread.fsbase))
		bpf_loop(PY_MAX_STEPS, step_python, &walk, 0);
	if (b->w.state == SO_PYTHON_STATE_NONE)
		return hash;
	return py_stack_hash(hash, b->w.hash, tgid, b->w.flags, b->w.state);
}

/* The stack into the buffer; returns its hash, which is never 0. */
static __noinline __u64 walk_stack(struct pt_regs *ctx, struct stack_buffer *b, __u32 number, __u32 tgid)
{
	const struct so_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct walk walk = { .b = b };

	if (!process || !b)
		return 0;
	uw_clear(&b->u);
	copy_regs(b->u.regs, ctx);
	uw_start(&b->u, ctx->rip, process->mappings, process->run);
	b->u.cpu = number;
	bpf_loop(SO_MAX_USER_FRAMES + 1, step, &walk, 0);
	return walk_python(b, process, uw_stack_hash(&b->u, tgid), tgid) ?: 1;
}

/* Two CPUs may both find that it is time; one wake-up more does no harm. urgent: the process may be about to end. */
static __always_inline __u64 wakeup_of(const struct stack_buffer *b, __u64 now_ns, bool urgent)
{
	if (!b->w.n || (!urgent && now_ns - last_wakeup_ns < python_wakeup_ns))
		return BPF_RB_NO_WAKEUP;
	last_wakeup_ns = now_ns;
	return BPF_RB_FORCE_WAKEUP;
}

static __noinline bool send_stack(struct stack_buffer *b, __u64 hash, __u32 tgid, __u32 slot, bool urgent)
{
	struct so_torch_record record = { .type = SO_RECORD_TORCH, .slot = slot, .stack = hash };
	struct so_unwind *u;
	__u32 frames, python;

	if (!b)
		return false;
	u = &b->u;
	frames = u->n;
	python = b->w.n;
	if (frames > SO_MAX_USER_FRAMES || python > SO_MAX_PYTHON_FRAMES)
		return false;
	bpf_probe_read_kernel(&u->frames[frames], python * sizeof(__u64) * SO_PYTHON_WORDS, b->w.words);
	u->record.type = SO_RECORD_STACK;
	u->record.n_user = frames;
	u->record.n_kernel = 0;
	u->record.n_python = python;
	u->record.python = b->w.state;
	u->record.hash = hash;
	u->record.tgid = tgid;
	u->record.cause = u->cause;
	u->record.flags = u->flags | b->w.flags;
	if (bpf_ringbuf_output(&stacks, &u->record,
			       sizeof(u->record) + (frames + python * SO_PYTHON_WORDS) * sizeof(__u64),
			       BPF_RB_NO_WAKEUP))
		return false;
	return !bpf_ringbuf_output(&stacks, &record, sizeof(record), wakeup_of(b, bpf_ktime_get_ns(), urgent));
}

#endif
