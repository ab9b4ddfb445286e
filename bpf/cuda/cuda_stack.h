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
	struct walk_buffer walk;
	struct so_cuda_line line;
	struct so_cuda_line_key key, marker;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* STACKS_A_CPU for each CPU, set by the daemon */
	__type(key, __u32);
	__type(value, struct stack_buffer);
} cuda_buffers SEC(".maps");

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
	    (!walk_send(&b->walk, hash, key->tgid, 0) || bpf_map_update_elem(window, &b->marker, &b->line, BPF_ANY)))
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
	struct so_unwind *u;

	if (!process || !c)
		return 0;
	if (!may_look(process)) {
		lose(c->cookie, SO_CUDA_LOSS_STACK_RIGHTS);
		return 0;
	}
	b = walk_take_buffer(&cuda_buffers, STACKS_A_CPU, &number);
	if (!b) {
		lose(c->cookie, SO_CUDA_LOSS_STACK_BUSY);
		return 0;
	}
	u = &b->walk.u;
	uw_clear(u);
	copy_regs(u->regs, ctx);
	uw_start(u, ctx->rip, process->mappings, process->run);
	u->exact = 0; /* the caller goes on at its return address */
	u->cpu = number;
	walk_native(&b->walk, process);
	hash = walk_python(&b->walk, process, uw_stack_hash(u, tgid), tgid);
	if (!count_stack(b, c, hash, api, ns, weight)) {
		lose(c->cookie, SO_CUDA_LOSS_STACK_FULL);
		hash = 0;
	}
	walk_release_buffer(b);
	slot = slot_of(c->cookie);
	if (slot) {
		slot->stacks++;
		slot->stacks_ns += bpf_ktime_get_ns() - begin;
	}
	return hash;
}

#endif
