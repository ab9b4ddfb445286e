/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stack of a CUDA call, taken at its return, with the sampler's tables (bpf/target_maps.h), unwinder and Python
 * walker. The calling thread may be preempted meanwhile and another take its own on the same CPU, so there is more
 * than one buffer.
 */
#ifndef STAKEOUT_BPF_CUDA_STACK_H
#define STAKEOUT_BPF_CUDA_STACK_H

#include "bpf/cuda/cuda_maps.h"
#include "bpf/registers.h"
#include "bpf/rights.h"
#include "bpf/walk.h"

#define STACKS_A_CPU SO_CUDA_STACKS_A_CPU

/* What taking a stack needs, too large for BPF's stack. One holder at a time. */
struct stack_buffer {
	__u32 busy;
	__u32 pad;
	struct so_unwind u;
	struct so_python_walk w;
	struct so_cuda_line line;
	struct so_cuda_line_key key, marker;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* STACKS_A_CPU for each CPU, set by the daemon */
	__type(key, __u32);
	__type(value, struct stack_buffer);
} cuda_buffers SEC(".maps");

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
	__u32 first = bpf_get_smp_processor_id() * STACKS_A_CPU;

#pragma unroll
	for (__u32 i = 0; i < STACKS_A_CPU; i++) {
		__u32 at = first + i;
		struct stack_buffer *b = bpf_map_lookup_elem(&cuda_buffers, &at);

		if (b && !__sync_lock_test_and_set(&b->busy, 1)) {
			*number = at;
			return b;
		}
	}
	return NULL;
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

static __always_inline bool send_stack(struct stack_buffer *b, __u64 hash, __u32 tgid)
{
	struct so_unwind *u = &b->u;
	__u32 frames = u->n, python = b->w.n;

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
	return !bpf_ringbuf_output(&stacks, &u->record,
				   sizeof(u->record) + (frames + python * SO_PYTHON_WORDS) * sizeof(__u64), 0);
}

static __always_inline bool count_stack(struct stack_buffer *b, const struct so_cuda_call *c, __u64 hash, __u32 api,
					__u64 ns, __u32 weight)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct so_cuda_line_key *key = &b->key;
	struct so_cuda_line *known;
	__u32 zero = 0, needless = c->needless ? weight : 0;
	void *window = bpf_map_lookup_elem(&cuda_open_window, &zero);

	if (!window)
		return false;
	__builtin_memset(&b->marker, 0, sizeof(b->marker));
	b->marker.stack = hash;
	__builtin_memset(key, 0, sizeof(*key));
	key->tgid = id >> 32;
	key->tid = (__u32)id;
	key->stack = hash;
	key->api = api;
	key->segment = control_of(c->cookie)->segment[unit_of(api)];
	known = bpf_map_lookup_elem(window, key);
	if (known) {
		known->calls += weight;
		known->total_ns += ns * weight;
		known->bytes += c->bytes * weight;
		known->seen++;
		known->seen_ns += ns;
		known->seen_bytes += c->bytes;
		known->needless += needless;
		known->needless_ns += ns * needless;
		return true;
	}
	b->line = (struct so_cuda_line){ .calls = weight,
					 .total_ns = ns * weight,
					 .bytes = c->bytes * weight,
					 .seen = 1,
					 .seen_ns = ns,
					 .seen_bytes = c->bytes,
					 .needless = needless,
					 .needless_ns = ns * needless,
					 .slot = SO_CUDA_COOKIE_SLOT(c->cookie) };
	if (!bpf_map_lookup_elem(window, &b->marker) &&
	    (!send_stack(b, hash, key->tgid) || bpf_map_update_elem(window, &b->marker, &b->line, BPF_ANY)))
		return false;
	return !bpf_map_update_elem(window, key, &b->line, BPF_ANY);
}

/* Returns the hash of the caller's stack, counted already; 0: there is none. */
static __noinline __u64 take_stack(struct pt_regs *ctx, struct so_cuda_call *c, __u32 api, __u64 ns, __u32 weight)
{
	__u64 begin = bpf_ktime_get_ns(), hash;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, number = 0;
	const struct so_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct so_cuda_slot *slot;
	struct stack_buffer *b;
	struct walk walk = {};

	if (!process || !c)
		return 0;
	if (!may_look(process)) {
		lose(c->cookie, SO_CUDA_LOSS_STACK_RIGHTS);
		return 0;
	}
	b = take_buffer(&number);
	if (!b) {
		lose(c->cookie, SO_CUDA_LOSS_STACK_BUSY);
		return 0;
	}
	walk.b = b;
	uw_clear(&b->u);
	copy_regs(b->u.regs, ctx);
	uw_start(&b->u, ctx->rip, process->mappings, process->run);
	b->u.exact = 0; /* the caller goes on at its return address */
	b->u.cpu = number;
	bpf_loop(SO_MAX_USER_FRAMES + 1, step, &walk, 0);
	hash = walk_python(b, process, uw_stack_hash(&b->u, tgid), tgid);
	if (!count_stack(b, c, hash, api, ns, weight)) {
		lose(c->cookie, SO_CUDA_LOSS_STACK_FULL);
		hash = 0;
	}
	*(volatile __u32 *)&b->busy = 0;
	slot = slot_of(c->cookie);
	if (slot) {
		slot->stacks++;
		slot->stacks_ns += bpf_ktime_get_ns() - begin;
	}
	return hash;
}

#endif
