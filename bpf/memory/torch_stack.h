/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stack of a thread that asks for memory, of a GPU or an allocator, taken at the probe, with the sampler's tables
 * (bpf/target_maps.h), unwinder and Python walker. A probe's program may be preempted, and another thread take its own
 * on the same CPU: so there is more than one buffer.
 */
#ifndef STAKEOUT_BPF_TORCH_STACK_H
#define STAKEOUT_BPF_TORCH_STACK_H

#include "bpf/registers.h"
#include "bpf/walk.h"
#include "stakeout/torch_abi.h"

#define BUFFERS_A_CPU 2

/* What the record behind that of a stack is, struct so_torch_record. */
#ifndef STACK_RECORD
#define STACK_RECORD SO_RECORD_TORCH
#endif

/*
 * Python frames wake the daemon, at most this often: code objects' names are to be read before their memory is reused.
 */
const volatile __u64 python_wakeup_ns = 20000000;

__u64 last_wakeup_ns = 0;

/* One holder at a time. */
struct stack_buffer {
	__u32 busy;
	__u32 pad;
	struct walk_buffer walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BUFFERS_A_CPU);
	__type(key, __u32);
	__type(value, struct stack_buffer);
} torch_buffers SEC(".maps");

/* The stack into the buffer; returns its hash, which is never 0. */
static __noinline __u64 walk_stack(struct pt_regs *ctx, struct stack_buffer *b, __u32 number, __u32 tgid)
{
	const struct so_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct so_unwind *u;

	if (!process || !b)
		return 0;
	u = &b->walk.u;
	uw_clear(u);
	copy_regs(u->regs, ctx);
	uw_start(u, ctx->rip, process->mappings, process->run);
	u->cpu = number;
	walk_native(&b->walk, process);
	return walk_python(&b->walk, process, uw_stack_hash(u, tgid), tgid) ?: 1;
}

/* Two CPUs may both find that it is time; one wake-up more does no harm. urgent: the process may be about to end. */
static __always_inline __u64 wakeup_of(const struct stack_buffer *b, __u64 now_ns, bool urgent)
{
	if (!b->walk.w.n || (!urgent && now_ns - last_wakeup_ns < python_wakeup_ns))
		return BPF_RB_NO_WAKEUP;
	last_wakeup_ns = now_ns;
	return BPF_RB_FORCE_WAKEUP;
}

static __noinline bool send_stack(struct stack_buffer *b, __u64 hash, __u32 tgid, __u32 slot, bool urgent)
{
	struct so_torch_record record = { .type = STACK_RECORD, .slot = slot, .stack = hash };

	if (!b || !walk_send(&b->walk, hash, tgid, BPF_RB_NO_WAKEUP))
		return false;
	return !bpf_ringbuf_output(&stacks, &record, sizeof(record), wakeup_of(b, bpf_ktime_get_ns(), urgent));
}

#endif
