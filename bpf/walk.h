/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The unwinder and the Python walker for programs beside the sampler's, which have its tables (bpf/target_maps.h) and a
 * cache of frames of their own. The daemon shares the map `tables`, says where in it the arrays are, and gives
 * `walk_caches` an entry for each that takes stacks at a time.
 */
#ifndef STAKEOUT_BPF_WALK_H
#define STAKEOUT_BPF_WALK_H

#include "bpf/target_maps.h"

/* Where the sampler's arrays are in the map of its globals. */
const volatile __u32 mappings_at = 0;
const volatile __u32 pythons_at = 0;
/* Older kernels' verifiers find the walk too complex with it (6.1: beyond a million instructions of CUDA's program). */
const volatile bool checks_mappings = true;
const volatile bool searches_states = true; /* likewise */

struct so_mapping no_mapping;

/* The sampler's globals: its .bss. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, SO_MAX_MAPPINGS * sizeof(struct so_mapping) + SO_MAX_PYTHONS * sizeof(struct so_python));
} tables SEC(".maps");

static __always_inline void *table_at(__u32 offset)
{
	__u32 zero = 0;
	void *all = bpf_map_lookup_elem(&tables, &zero);

	return all ? all + offset : NULL;
}

static __always_inline const struct so_mapping *uw_mapping(__u32 i)
{
	const struct so_mapping *all = table_at(mappings_at);

	return all ? &all[i & (SO_MAX_MAPPINGS - 1)] : &no_mapping;
}

static __always_inline struct so_frame_cache *uw_cache(__u32 cpu);

#define UW_CHECKS      checks_mappings
#define PY_SEARCHES    searches_states
#define UW_FS_BASE()   (bpf_get_current_task_btf()->thread.fsbase)
#define UW_SEARCH      __noinline
#define UW_CACHE_SHIFT 10
#include "stakeout/unwinder.h"

#include "bpf/check.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_frame_cache);
} walk_caches SEC(".maps");

/* cpu: the number of the entry; struct so_unwind's. */
static __always_inline struct so_frame_cache *uw_cache(__u32 cpu)
{
	return bpf_map_lookup_elem(&walk_caches, &cpu);
}

#include "stakeout/python_walker.h"

/* What taking a stack needs, too large for BPF's stack. */
struct walk_buffer {
	struct so_unwind u;
	struct so_python_walk w;
};

struct walk {
	struct walk_buffer *b;
	const struct so_python *p;
};

static long walk_step(__u32 i, void *ctx)
{
	struct walk *walk = ctx;

	return uw_step(&walk->b->u);
}

static long walk_python_step(__u32 i, void *ctx)
{
	struct walk *walk = ctx;

	return py_step(&walk->b->w, walk->p);
}

/* The native frames, from where uw_start() began. */
static __always_inline void walk_native(struct walk_buffer *b, const struct so_process *process)
{
	struct walk walk = { .b = b };

	if (checks_mappings)
		check_mappings(&b->u, process);
	bpf_loop(SO_MAX_USER_FRAMES + 1, walk_step, &walk, 0);
}

/* The Python frames of this thread; returns the stack's hash, of which `hash` is that of the native frames. */
static __always_inline __u64 walk_python(struct walk_buffer *b, const struct so_process *process, __u64 hash,
					 __u32 tgid)
{
	const struct so_python *all = table_at(pythons_at);
	struct walk walk = { .b = b };

	b->u.python = 0;
	b->w.n = 0;
	b->w.state = SO_PYTHON_STATE_NONE;
	b->w.flags = 0;
	b->w.empty_calls = 0;
	if (!process->python.build || !all)
		return hash;
	walk.p = &all[(process->python.build - 1) & (SO_MAX_PYTHONS - 1)];
	b->w.state = SO_PYTHON_STATE_DEPTH;
	if (!py_begin(&b->w, walk.p, &process->python, bpf_get_current_task_btf()->thread.fsbase))
		bpf_loop(PY_MAX_STEPS, walk_python_step, &walk, 0);
	if (b->w.state == SO_PYTHON_STATE_NONE)
		return hash;
	return py_stack_hash(hash, b->w.hash, tgid, b->w.flags, b->w.state);
}

/* Sends it as a record of the ring of stacks. flags: of bpf_ringbuf_output(). False: there is no room. */
static __always_inline bool walk_send(struct walk_buffer *b, __u64 hash, __u32 tgid, __u64 flags)
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
	u->record.empty_calls = b->w.empty_calls;
	u->record.call_at = 0; /* the native frames were walked before */
	u->record.hash = hash;
	u->record.tgid = tgid;
	u->record.cause = u->cause;
	u->record.flags = u->flags | b->w.flags;
	return !bpf_ringbuf_output(&stacks, &u->record,
				   sizeof(u->record) + (frames + python * SO_PYTHON_WORDS) * sizeof(__u64), flags);
}

/*
 * One of the buffers of this CPU in an array whose values begin with a __u32, not 0 while somebody has it: a program of a
 * probe may be preempted, and another take a stack on the same CPU. a_cpu: how many each CPU has. NULL: none is free.
 */
static __always_inline void *walk_take_buffer(void *buffers, __u32 a_cpu, __u32 *number)
{
	__u32 first = bpf_get_smp_processor_id() * a_cpu;

#pragma unroll
	for (__u32 i = 0; i < a_cpu; i++) {
		__u32 at = first + i;
		__u32 *busy = bpf_map_lookup_elem(buffers, &at);

		if (busy && !__sync_lock_test_and_set(busy, 1)) {
			*number = at;
			return busy;
		}
	}
	return NULL;
}

static __always_inline void walk_release_buffer(void *buffer)
{
	*(volatile __u32 *)buffer = 0;
}

#endif
