// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CUDA calls, timed on the host between a function's entry and its return. A call adds to the counters of its thread,
 * call and kernel; one in so many calls, which the daemon decides, also has its stack taken. What a call nests is not
 * counted: the runtime's calls make the driver's.
 *
 * The stack is taken at the return: duration and outcome are known there, the registers are those of the caller again, and
 * the return address that the probe had replaced is back in its place.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/registers.h"
#include "bpf/target_maps.h"
#include "stakeout/cuda_abi.h"

char LICENSE[] SEC("license") = "GPL";

#define NOT_READY       600 /* cudaErrorNotReady, CUDA_ERROR_NOT_READY: what a query says of work that goes on */
#define STACKS_A_CPU    SO_CUDA_STACKS_A_CPU
#define CACHE_SHIFT     10
#define STREAM_INTERVAL 64 /* the stream of a launch is on the stack: it is read once in so many calls */

/* Where the sampler's arrays are in the map of its globals. */
const volatile __u32 mappings_at = 0;
const volatile __u32 pythons_at = 0;
/* Whether the kernel has bpf_loop (5.17); without it no stacks are taken. */
const volatile bool have_loop = true;

struct so_cuda_control control[SO_CUDA_SLOTS];
/* Time that a call takes which does nothing, between the two probes. */
__u64 floor_ns = 0;
/* And what a probe in it takes that finds its call to be nested. */
__u64 nested_ns = 0;
struct so_mapping no_mapping;

/* How the arguments of each call are read, and what it does. */
#define CALL_OF_RUNTIME 0
#define CALL_OF_DRIVER  1

static const struct {
	__u8 kind, args, of;
} calls_info[SO_CUDA_API_COUNT] = {
#define X(name, library, kind, args) { SO_CUDA_##kind, SO_CUDA_ARGS_##args, CALL_OF_##library },
	SO_CUDA_APIS(X)
#undef X
};

static const struct {
	__u8 out, handle, text;
} namers_info[SO_CUDA_NAMER_COUNT] = {
#define X(name, library, out, handle, text) { out, handle, text },
	SO_CUDA_NAMERS(X)
#undef X
};

/* The sampler's globals: its .bss. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size,
	       SO_MAX_MAPPINGS * sizeof(struct so_mapping) + SO_MAX_PYTHONS * sizeof(struct so_python));
} tables SEC(".maps");

/* A thread's call. Belongs to the thread, so nobody else writes to it. */
struct call {
	__u64 cookie;
	__u64 sp; /* at the entry: nested calls have a lower one */
	__u64 begin_ns;
	__u64 kernel, stream, pointer, bytes;
	__u32 grid[3], block[3];
	__u32 direction;
	__u32 active;
	__u32 seen; /* launches */
	__u32 nested;
	/* A call that tells a name; it may be nested in one that is counted. */
	__u32 naming;
	__u64 naming_cookie, naming_sp;
	__u64 out, handle, text;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} cuda_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_CALLS_ENTRIES);
	__type(key, struct so_cuda_key);
	__type(value, struct so_cuda_calls);
} cuda_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SO_CUDA_ERROR_ENTRIES);
	__type(key, struct so_cuda_error_key);
	__type(value, __u64);
} cuda_errors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_ALLOCATION_ENTRIES);
	__type(key, struct so_cuda_pointer);
	__type(value, struct so_cuda_allocation);
} cuda_allocations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_SITE_ENTRIES);
	__type(key, struct so_cuda_site_key);
	__type(value, struct so_cuda_site);
} cuda_sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct so_cuda_runtimes);
} cuda_runtimes SEC(".maps");

struct window {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SO_CUDA_WINDOW_ENTRIES);
	__type(key, struct so_cuda_line_key);
	__type(value, struct so_cuda_line);
} cuda_window_a SEC(".maps"), cuda_window_b SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct window);
} cuda_open_window SEC(".maps") = { .values = { (void *)&cuda_window_a } };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SO_CUDA_SLOTS);
	__type(key, __u32);
	__type(value, struct so_cuda_slot);
} cuda_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} cuda_names SEC(".maps");

struct frame_cache {
	struct so_cached_frame frames[1u << CACHE_SHIFT];
	__u64 beyond; /* the last entry's rule may be read as a whole one */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one for each buffer */
	__type(key, __u32);
	__type(value, struct frame_cache);
} cuda_caches SEC(".maps");

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

/* cpu: the number of the buffer. */
static __always_inline struct so_cached_frame *uw_cached(__u32 cpu, __u64 address)
{
	struct frame_cache *cache = bpf_map_lookup_elem(&cuda_caches, &cpu);

	return cache ? &cache->frames[address * 0x9e3779b97f4a7c15ull >> (64 - CACHE_SHIFT)] : NULL;
}

#define UW_SEARCH __noinline
#include "bpf/unwind.h"

#include "bpf/python.h"

/* What taking a stack needs, too large for BPF's stack. One holder at a time. */
struct stack_buffer {
	__u32 busy;
	__u32 pad;
	struct so_unwind u;
	struct so_python_walk w;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* STACKS_A_CPU for each CPU, set by the daemon */
	__type(key, __u32);
	__type(value, struct stack_buffer);
} cuda_buffers SEC(".maps");

static __always_inline struct so_cuda_slot *slot_of(__u64 cookie)
{
	__u32 slot = SO_CUDA_COOKIE_SLOT(cookie);

	return bpf_map_lookup_elem(&cuda_slots, &slot);
}

static __always_inline const struct so_cuda_control *control_of(__u64 cookie)
{
	return &control[SO_CUDA_COOKIE_SLOT(cookie) & (SO_CUDA_SLOTS - 1)];
}

static __always_inline bool is_off(const struct so_cuda_control *control, __u32 api)
{
	return !control->on || control->off[calls_info[api].kind & (SO_CUDA_KIND_ROOM - 1)];
}

static __always_inline void lose(__u64 cookie, enum so_cuda_loss cause)
{
	struct so_cuda_slot *slot = slot_of(cookie);

	if (slot)
		slot->lost[cause]++;
}

/* The call's arguments. */

struct arguments {
	__u64 rdi, rsi, rdx, rcx, r8, r9, rsp;
};

#define REGISTER(name) (*(volatile const unsigned long *)&ctx->name)

/* One load each: the verifier takes no pointer into the context that depends on anything, as compilers like to make. */
static __always_inline void read_registers(const struct pt_regs *ctx, struct arguments *a)
{
	a->rdi = REGISTER(rdi);
	a->rsi = REGISTER(rsi);
	a->rdx = REGISTER(rdx);
	a->rcx = REGISTER(rcx);
	a->r8 = REGISTER(r8);
	a->r9 = REGISTER(r9);
	a->rsp = REGISTER(rsp);
}

static __always_inline __u64 stack_argument(const struct arguments *ctx, __u32 i)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)(ctx->rsp + 8 + i * 8));
	return value;
}

static __always_inline void read_words(void *to, __u32 bytes, __u64 address)
{
	if (bpf_probe_read_user(to, bytes, (void *)address))
		__builtin_memset(to, 0, bytes);
}

static __always_inline void set_dimensions(struct call *c, __u64 xy, __u64 z, __u64 block_xy, __u64 block_z)
{
	c->grid[0] = (__u32)xy;
	c->grid[1] = (__u32)(xy >> 32);
	c->grid[2] = (__u32)z;
	c->block[0] = (__u32)block_xy;
	c->block[1] = (__u32)(block_xy >> 32);
	c->block[2] = (__u32)block_z;
}

/* cudaLaunchConfig_t and CUlaunchConfig begin alike: grid and block, shared memory, and at 32 the stream. */
static __noinline int read_launch_config(struct call *c, __u64 config)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared, stream;
	} words;

	if (!c)
		return 0;
	read_words(&words, sizeof(words), config);
	__builtin_memcpy(c->grid, words.grid, sizeof(c->grid));
	__builtin_memcpy(c->block, words.block, sizeof(c->block));
	c->stream = words.stream;
	return 0;
}

static __always_inline void read_launch(struct call *c, const struct arguments *ctx, __u32 args)
{
	bool with_stream = c->seen++ % STREAM_INTERVAL == 0;

	if (args == SO_CUDA_ARGS_LAUNCH) {
		c->kernel = ctx->rdi;
		set_dimensions(c, ctx->rsi, ctx->rdx, ctx->rcx, ctx->r8);
		if (with_stream)
			c->stream = stack_argument(ctx, 1);
	} else if (args == SO_CUDA_ARGS_CU_LAUNCH) {
		c->kernel = ctx->rdi;
		set_dimensions(c, (__u32)ctx->rsi | ctx->rdx << 32, ctx->rcx, (__u32)ctx->r8 | ctx->r9 << 32,
			       1);
		c->block[2] = (__u32)stack_argument(ctx, 0);
		if (with_stream)
			c->stream = stack_argument(ctx, 2);
	} else {
		c->kernel = args == SO_CUDA_ARGS_LAUNCH_CONFIG ? ctx->rsi : ctx->rsi;
		read_launch_config(c, ctx->rdi);
	}
}

static __always_inline __u32 direction_of(__u64 kind)
{
	return kind <= SO_CUDA_DIRECTION_DEFAULT ? (__u32)kind : SO_CUDA_DIRECTION_DEFAULT;
}

/* By the memory types of the driver's descriptors: host 1, device 2, array 3, unified 4. */
static __always_inline __u32 direction_between(__u32 from, __u32 to)
{
	if (from == 4 || to == 4 || from < 1 || from > 4 || to < 1 || to > 4)
		return SO_CUDA_DIRECTION_DEFAULT;
	if (from == 1)
		return to == 1 ? SO_CUDA_DIRECTION_HTOH : SO_CUDA_DIRECTION_HTOD;
	return to == 1 ? SO_CUDA_DIRECTION_DTOH : SO_CUDA_DIRECTION_DTOD;
}

/* Offsets: cudaMemcpy3DParms in driver_types.h; CUDA_MEMCPY2D, CUDA_MEMCPY3D in cuda.h. */
static __noinline int read_copy_descriptor(struct call *c, __u64 at, __u32 args)
{
	__u64 size[3] = { 0, 1, 1 };
	__u32 from = 0, to = 0;

	if (!c)
		return 0;
	if (args == SO_CUDA_ARGS_COPY_3D) {
		read_words(size, sizeof(size), at + 128);
		read_words(&from, sizeof(from), at + 152);
		c->direction = direction_of(from);
	} else if (args == SO_CUDA_ARGS_CU_COPY_2D) {
		read_words(size, 16, at + 112);
		read_words(&from, sizeof(from), at + 16);
		read_words(&to, sizeof(to), at + 72);
		c->direction = direction_between(from, to);
	} else {
		read_words(size, sizeof(size), at + 176);
		read_words(&from, sizeof(from), at + 32);
		read_words(&to, sizeof(to), at + 120);
		c->direction = direction_between(from, to);
	}
	c->bytes = size[0] * size[1] * size[2];
	return 0;
}

static __always_inline void read_copy(struct call *c, const struct arguments *ctx, __u32 args)
{
	switch (args) {
	case SO_CUDA_ARGS_COPY:
		c->bytes = ctx->rdx;
		c->direction = direction_of((__u32)ctx->rcx);
		c->stream = ctx->r8;
		break;
	case SO_CUDA_ARGS_COPY_2D:
		c->bytes = ctx->r8 * ctx->r9;
		c->direction = direction_of((__u32)stack_argument(ctx, 0));
		break;
	case SO_CUDA_ARGS_COPY_PEER:
	case SO_CUDA_ARGS_CU_COPY_PEER:
		c->bytes = ctx->r8;
		c->direction = SO_CUDA_DIRECTION_PEER;
		c->stream = ctx->r9;
		break;
	case SO_CUDA_ARGS_COPY_SYMBOL:
		c->bytes = ctx->rdx;
		c->direction = direction_of((__u32)ctx->r8);
		c->stream = ctx->r9;
		break;
	case SO_CUDA_ARGS_CU_COPY:
	case SO_CUDA_ARGS_CU_COPY_HTOD:
	case SO_CUDA_ARGS_CU_COPY_DTOH:
	case SO_CUDA_ARGS_CU_COPY_DTOD:
		c->bytes = ctx->rdx;
		c->direction = args == SO_CUDA_ARGS_CU_COPY_HTOD   ? SO_CUDA_DIRECTION_HTOD
			       : args == SO_CUDA_ARGS_CU_COPY_DTOH ? SO_CUDA_DIRECTION_DTOH
			       : args == SO_CUDA_ARGS_CU_COPY_DTOD ? SO_CUDA_DIRECTION_DTOD
								   : SO_CUDA_DIRECTION_DEFAULT;
		c->stream = ctx->rcx;
		break;
	default:
		read_copy_descriptor(c, ctx->rdi, args);
		c->stream = ctx->rsi;
	}
}

static __always_inline void read_memory(struct call *c, const struct arguments *ctx, __u32 args)
{
	switch (args) {
	case SO_CUDA_ARGS_SET:
		c->bytes = ctx->rdx;
		break;
	case SO_CUDA_ARGS_SET_16:
		c->bytes = ctx->rdx * 2;
		break;
	case SO_CUDA_ARGS_SET_32:
		c->bytes = ctx->rdx * 4;
		break;
	case SO_CUDA_ARGS_SET_2D:
		c->bytes = ctx->rcx * ctx->r8;
		break;
	case SO_CUDA_ARGS_ALLOC_PITCH:
		c->bytes = ctx->rdx * ctx->rcx;
		c->pointer = ctx->rdi;
		break;
	case SO_CUDA_ARGS_ALLOC:
		c->bytes = ctx->rsi;
		c->pointer = ctx->rdi;
		break;
	case SO_CUDA_ARGS_FREE:
		c->pointer = ctx->rdi;
		break;
	}
}

static __always_inline void read_arguments(struct call *c, const struct arguments *ctx, __u32 api)
{
	__u32 args = calls_info[api].args;

	c->kernel = 0;
	c->bytes = 0;
	c->pointer = 0;
	c->direction = SO_CUDA_DIRECTION_NO;
	if (args >= SO_CUDA_ARGS_LAUNCH && args <= SO_CUDA_ARGS_CU_LAUNCH_CONFIG)
		read_launch(c, ctx, args);
	else if (args >= SO_CUDA_ARGS_COPY && args <= SO_CUDA_ARGS_CU_COPY_3D)
		read_copy(c, ctx, args);
	else if (args == SO_CUDA_ARGS_STREAM)
		c->stream = ctx->rdi;
	else if (args == SO_CUDA_ARGS_GRAPH || args == SO_CUDA_ARGS_EVENT)
		c->stream = ctx->rsi;
	else
		read_memory(c, ctx, args);
}

static __always_inline struct call *thread_call(bool create)
{
	return bpf_task_storage_get(&cuda_threads, bpf_get_current_task_btf(), 0,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

/* Names. */

static __always_inline __u64 argument(const struct arguments *ctx, __u32 i)
{
	return i == 1 ? ctx->rdi : i == 2 ? ctx->rsi : i == 3 ? ctx->rdx : i == 4 ? ctx->rcx : 0;
}

static __always_inline void tell_name(const struct call *c, __u32 namer, __u64 handle)
{
	struct so_cuda_name *n = bpf_ringbuf_reserve(&cuda_names, sizeof(*n), 0);

	if (!n) {
		lose(c->naming_cookie, SO_CUDA_LOSS_NAMES_FULL);
		return;
	}
	n->tgid = bpf_get_current_pid_tgid() >> 32;
	n->namer = namer;
	n->handle = handle;
	n->other = handle == c->handle ? 0 : c->handle;
	n->name[0] = 0;
	if (c->text)
		bpf_probe_read_user_str(n->name, sizeof(n->name), (void *)c->text);
	bpf_ringbuf_submit(n, 0);
}

/* Not 0: the return is of no interest. */
static __always_inline int enter_namer(const struct arguments *ctx, struct call *c, __u64 cookie, __u32 namer)
{
	if (namer >= SO_CUDA_NAMER_COUNT)
		return 1;
	c->naming_cookie = cookie;
	c->naming_sp = ctx->rsp;
	c->out = argument(ctx, namers_info[namer].out);
	c->handle = argument(ctx, namers_info[namer].handle);
	c->text = argument(ctx, namers_info[namer].text);
	if (!c->out) {
		tell_name(c, namer, c->handle);
		return 1;
	}
	c->naming = 1;
	return 0;
}

static __always_inline void leave_namer(const struct pt_regs *ctx, struct call *c, __u32 namer)
{
	__u64 handle = 0;

	if (!c->naming || ctx->rsp != c->naming_sp + 8)
		return;
	c->naming = 0;
	if ((__u32)ctx->rax || bpf_probe_read_user(&handle, sizeof(handle), (void *)c->out))
		return;
	tell_name(c, namer, handle);
}

/* Stacks. */

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
	if (!process->python || !all)
		return hash;
	walk.p = &all[(process->python - 1) & (SO_MAX_PYTHONS - 1)];
	b->w.state = SO_PYTHON_STATE_DEPTH;
	if (!py_begin(&b->w, walk.p, bpf_get_current_task_btf()->thread.fsbase))
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

static __always_inline bool count_stack(struct stack_buffer *b, const struct call *c, __u64 hash, __u32 api,
					__u64 ns, __u32 weight)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct so_cuda_line_key key = { .tgid = id >> 32, .tid = (__u32)id, .stack = hash, .api = api },
				marker = { .stack = hash };
	struct so_cuda_line first = { .calls = weight,
				      .total_ns = ns * weight,
				      .bytes = c->bytes * weight,
				      .slot = SO_CUDA_COOKIE_SLOT(c->cookie) };
	struct so_cuda_line *known;
	__u32 zero = 0;
	void *window = bpf_map_lookup_elem(&cuda_open_window, &zero);

	if (!window)
		return false;
	known = bpf_map_lookup_elem(window, &key);
	if (known) {
		known->calls += weight;
		known->total_ns += ns * weight;
		known->bytes += c->bytes * weight;
		return true;
	}
	if (!bpf_map_lookup_elem(window, &marker) &&
	    (!send_stack(b, hash, key.tgid) || bpf_map_update_elem(window, &marker, &first, BPF_ANY)))
		return false;
	return !bpf_map_update_elem(window, &key, &first, BPF_ANY);
}

/* Returns the hash of the caller's stack, counted already; 0: there is none. */
static __noinline __u64 take_stack(struct pt_regs *ctx, struct call *c, __u32 api, __u64 ns, __u32 weight)
{
	__u64 begin = bpf_ktime_get_ns(), hash;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, number = 0;
	const struct so_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct so_cuda_slot *slot;
	struct stack_buffer *b;
	struct walk walk = {};

	if (!process || !c)
		return 0;
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

/* What is allocated. */

static __always_inline bool is_host(__u32 api)
{
	return api == SO_CUDA_API_cudaMallocHost || api == SO_CUDA_API_cudaHostAlloc ||
	       api == SO_CUDA_API_cudaFreeHost || api == SO_CUDA_API_cuMemAllocHost ||
	       api == SO_CUDA_API_cuMemHostAlloc || api == SO_CUDA_API_cuMemFreeHost;
}

static __always_inline void add_to_site(const struct call *c, const struct so_cuda_site_key *key, __u64 bytes)
{
	struct so_cuda_site first = {}, *site = bpf_map_lookup_elem(&cuda_sites, key);

	if (!site) {
		bpf_map_update_elem(&cuda_sites, key, &first, BPF_NOEXIST);
		site = bpf_map_lookup_elem(&cuda_sites, key);
	}
	if (!site) {
		lose(c->cookie, SO_CUDA_LOSS_SITES_FULL);
		return;
	}
	__sync_fetch_and_add(&site->allocations, 1);
	__sync_fetch_and_add(&site->bytes, bytes);
	__sync_fetch_and_add(&site->current_bytes, bytes);
	/* Two threads at once may leave the lower of two peaks. */
	if (site->current_bytes > site->peak_bytes)
		site->peak_bytes = site->current_bytes;
}

static __noinline int allocated(struct call *c, __u32 api, __u64 stack)
{
	struct so_cuda_pointer key = { .tgid = bpf_get_current_pid_tgid() >> 32, .host = is_host(api) };
	struct so_cuda_site_key at = { .tgid = key.tgid, .host = key.host, .stack = stack };
	struct so_cuda_allocation a = { .site = stack };

	if (!c || bpf_probe_read_user(&key.address, sizeof(key.address), (void *)c->pointer))
		return 0;
	a.bytes = c->bytes;
	if (bpf_map_update_elem(&cuda_allocations, &key, &a, BPF_ANY))
		lose(c->cookie, SO_CUDA_LOSS_ALLOCATIONS_FULL);
	add_to_site(c, &at, a.bytes);
	return 0;
}

static __noinline int freed(struct call *c, __u32 api)
{
	struct so_cuda_pointer key = { .tgid = bpf_get_current_pid_tgid() >> 32, .host = is_host(api) };
	struct so_cuda_site_key at = { .tgid = key.tgid, .host = key.host };
	struct so_cuda_allocation *a;
	struct so_cuda_site *site;

	if (!c)
		return 0;
	key.address = c->pointer;
	a = bpf_map_lookup_elem(&cuda_allocations, &key);
	if (!a)
		return 0; /* allocated before watching began */
	at.stack = a->site;
	site = bpf_map_lookup_elem(&cuda_sites, &at);
	if (site) {
		__sync_fetch_and_add(&site->frees, 1);
		__sync_fetch_and_add(&site->current_bytes, -(__s64)a->bytes);
	}
	bpf_map_delete_elem(&cuda_allocations, &key);
	return 0;
}

/* Counting. */

static __always_inline void count_error(const struct call *c, __u32 tgid, __u32 api, __u32 code)
{
	struct so_cuda_error_key key = {
		.tgid = tgid, .library = SO_CUDA_COOKIE_LIBRARY(c->cookie), .api = api, .code = code
	};
	__u64 one = 1, *known = bpf_map_lookup_elem(&cuda_errors, &key);

	if (!known && bpf_map_update_elem(&cuda_errors, &key, &one, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&cuda_errors, &key);
		if (!known)
			lose(c->cookie, SO_CUDA_LOSS_ERRORS_FULL);
	}
	if (known)
		__sync_fetch_and_add(known, 1);
}

static __always_inline struct so_cuda_calls *calls_of(const struct so_cuda_key *key)
{
	struct so_cuda_calls *calls = bpf_map_lookup_elem(&cuda_calls, key);
	static const struct so_cuda_calls none = { .min_ns = ~0ull };

	if (calls)
		return calls;
	bpf_map_update_elem(&cuda_calls, key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_calls, key);
}

static __always_inline void add_launch(struct so_cuda_calls *calls, const struct call *c)
{
	__u64 blocks = (__u64)c->grid[0] * c->grid[1] * c->grid[2];

	calls->blocks += blocks;
	calls->threads += blocks * c->block[0] * c->block[1] * c->block[2];
	__builtin_memcpy(calls->grid, c->grid, sizeof(calls->grid));
	__builtin_memcpy(calls->block, c->block, sizeof(calls->block));
}

/* caller: the return address. */
static __always_inline void count_call(const struct call *c, __u32 api, __u64 ns, bool failed, __u64 caller)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 octave = latency_octave(ns);
	struct so_cuda_key key = { .tgid = id >> 32,
				   .tid = (__u32)id,
				   .kernel = c->kernel,
				   .library = SO_CUDA_COOKIE_LIBRARY(c->cookie),
				   .api = api,
				   .direction = c->direction,
				   .octave = octave };
	struct so_cuda_calls *calls = calls_of(&key);
	__u64 scaled = ns >> latency_square_shift(octave);

	if (!calls) {
		lose(c->cookie, SO_CUDA_LOSS_CALLS_FULL);
		return;
	}
	calls->calls++;
	calls->total_ns += ns;
	calls->squares += scaled * scaled;
	if (ns < calls->min_ns)
		calls->min_ns = ns;
	if (ns > calls->max_ns)
		calls->max_ns = ns;
	calls->buckets[latency_bucket(ns, octave) & (LATENCY_BUCKETS - 1)]++;
	calls->stream = c->stream;
	calls->caller = caller;
	if (failed) {
		calls->errors++;
		return;
	}
	calls->bytes += c->bytes;
	if (calls_info[api].kind == SO_CUDA_LAUNCH)
		add_launch(calls, c);
}

static __always_inline void finish(struct pt_regs *ctx, struct call *c, __u32 api, __u64 ns)
{
	__u32 kind = calls_info[api].kind, code = (__u32)ctx->rax, period;
	bool failed = code && !(kind == SO_CUDA_EVENT && code == NOT_READY);
	__u64 stack = 0;

	count_call(c, api, ns, failed, ctx->rip);
	if (failed) {
		count_error(c, bpf_get_current_pid_tgid() >> 32, api, code);
		c->bytes = 0;
	}
	period = control_of(c->cookie)->stack_period[kind & (SO_CUDA_KIND_ROOM - 1)];
	if (have_loop && period && (period == 1 || bpf_get_prandom_u32() % period == 0))
		stack = take_stack(ctx, c, api, ns, period);
	if (failed)
		return;
	if (kind == SO_CUDA_ALLOC)
		allocated(c, api, stack);
	else if (kind == SO_CUDA_FREE)
		freed(c, api);
}

/* Whether the function was called by the process's own runtime. */
static __always_inline bool is_called_by_runtime(const struct arguments *a)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	const struct so_cuda_runtimes *r = bpf_map_lookup_elem(&cuda_runtimes, &tgid);
	__u64 caller = 0;

	if (!r || bpf_probe_read_user(&caller, sizeof(caller), (void *)a->rsp))
		return false;
#pragma unroll
	for (int i = 0; i < SO_CUDA_MAX_RUNTIMES; i++) {
		if (caller >= r->low[i] && caller < r->high[i])
			return true;
	}
	return false;
}

/* Not 0: the return is of no interest. */
static __always_inline int enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 call = SO_CUDA_COOKIE_CALL(cookie);
	struct so_cuda_slot *slot = slot_of(cookie);
	struct arguments a;
	struct call *c;

	if (!slot)
		return 1;
	read_registers(ctx, &a);
	slot->hits++;
	if (!control_of(cookie)->on)
		return 1;
	c = thread_call(true);
	if (!c) {
		slot->lost[SO_CUDA_LOSS_STATE]++;
		return 1;
	}
	if (call >= SO_CUDA_API_COUNT)
		return enter_namer(&a, c, cookie, call - SO_CUDA_API_COUNT);
	if (is_off(control_of(cookie), call))
		return 1;
	if (c->active) {
		if (a.rsp < c->sp) {
			slot->nested++;
			c->nested++;
			return 1;
		}
		/* That call is over: it was left by a jump, or its probe was taken away. */
		slot->lost[SO_CUDA_LOSS_UNFINISHED]++;
	}
	if (calls_info[call].of == CALL_OF_DRIVER && is_called_by_runtime(&a)) {
		c->active = 0;
		slot->nested++;
		return 1;
	}
	c->cookie = cookie;
	c->sp = a.rsp;
	read_arguments(c, &a, call);
	c->nested = 0;
	c->active = 1;
	c->begin_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int leave(struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), ns, own;
	__u32 call = SO_CUDA_COOKIE_CALL(cookie);
	struct so_cuda_slot *slot = slot_of(cookie);
	struct call *c = thread_call(false);

	if (!slot || !c)
		return 0;
	slot->returns++;
	if (call >= SO_CUDA_API_COUNT) {
		if (call - SO_CUDA_API_COUNT < SO_CUDA_NAMER_COUNT)
			leave_namer(ctx, c, call - SO_CUDA_API_COUNT);
		return 0;
	}
	if (!c->active || c->cookie != cookie || ctx->rsp != c->sp + 8)
		return 0;
	c->active = 0;
	/* Switched off meanwhile: what began before does not count, as what began meanwhile does not. */
	if (is_off(control_of(cookie), call))
		return 0;
	slot->calls++;
	ns = now - c->begin_ns;
	own = floor_ns + c->nested * nested_ns;
	ns = ns > own ? ns - own : 0;
	finish(ctx, c, call, ns);
	return 0;
}

extern bool bpf_session_is_return(void) __ksym __weak;

/* Entry and return in one (6.13). */
SEC("?kprobe/session")
int cuda_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return bpf_session_is_return() ? leave(ctx, cookie) : enter(ctx, cookie);
}

SEC("?kprobe/enter")
int cuda_enter(struct pt_regs *ctx)
{
	enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("?kprobe/leave")
int cuda_leave(struct pt_regs *ctx)
{
	return leave(ctx, bpf_get_attach_cookie(ctx));
}
