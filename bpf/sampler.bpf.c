// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sampler. `sample` runs on each tick of the clock event of each CPU that a target may run on: it returns at once
 * unless the running process is a target, else it unwinds the thread's stack and counts it. The tracepoint programs
 * follow the targets' forks, execs and ends.
 *
 * A sample of a known stack costs one hash lookup beyond its unwinding. A new one is sent to the daemon whole, through
 * a ring buffer, and remembered in the window's map by its hash, so the kernel keeps no fixed-size slot for it.
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
#include "bpf/rights.h"
#include "bpf/target_maps.h"
#include "stakeout/sampler_abi.h"

char LICENSE[] SEC("license") = "GPL";

/* Whether the kernel has bpf_task_pt_regs (5.15); without it the registers are found from the kernel stack's end. */
const volatile bool have_task_pt_regs = true;
/* Bytes waiting in the ring of stacks at which the daemon is woken. */
const volatile __u64 ring_wakeup_bytes = 256 << 10;
/* Code objects seen first wake it too, at most this often: their names are to be read before their memory is reused. */
const volatile __u64 python_wakeup_ns = 20000000;

struct so_mapping mappings[SO_MAX_MAPPINGS];
struct so_python pythons[SO_MAX_PYTHONS];

/* The map of the open window. The daemon swaps it; that update returns once no program uses the old one any more. */
struct window {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SO_WINDOW_ENTRIES);
	__type(key, struct so_count_key);
	__type(value, struct so_count);
} window_a SEC(".maps"), window_b SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct window);
} open_window SEC(".maps") = { .values = { (void *)&window_a } };

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 << 10);
} events SEC(".maps");

__u64 last_wakeup_ns = 0;
/* A code object was sent for the first time, and the daemon was not woken since. */
__u64 python_unread = 0;

/* Events that did not fit into their ring; the daemon then looks at every process anew. */
__u64 events_lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SO_MAX_SLOTS);
	__type(key, __u32);
	__type(value, struct so_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SO_PROGRAM_COUNT);
	__type(key, __u32);
	__type(value, struct so_program_time);
} program_times SEC(".maps");

static __always_inline const struct so_mapping *uw_mapping(__u32 i)
{
	return &mappings[i & (SO_MAX_MAPPINGS - 1)];
}

static __always_inline struct so_frame_cache *uw_cache(__u32 cpu);

static __always_inline __u64 fs_base(void)
{
	struct task_struct *task = current_task();

	return have_task_btf ? task->thread.fsbase : BPF_CORE_READ(task, thread.fsbase);
}

#define UW_FS_BASE fs_base
#define UW_SEARCH  __noinline
#include "stakeout/unwinder.h"

#include "bpf/check.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* for its values to begin with a page */
	__uint(max_entries, 1);            /* the number of CPUs, set by the daemon */
	__type(key, __u32);
	__type(value, struct so_frame_cache);
} frame_caches SEC(".maps");

static __always_inline struct so_frame_cache *uw_cache(__u32 cpu)
{
	return bpf_map_lookup_elem(&frame_caches, &cpu);
}

#include "stakeout/python_walker.h"

/* One sample in the making, too large for the stack. A CPU's clock events never interrupt one another. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_unwind);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct so_python_walk);
} python_scratch SEC(".maps");

struct sample {
	struct so_unwind *u;
	struct so_python_walk *w; /* NULL: no interpreter is known in this process */
	struct so_process *process;
	struct so_slot *slot;
	__u32 tgid, tid;
};

/* The kernel allows 33 tail calls in a row: enough for SO_MAX_USER_FRAMES. */
#define CHAIN_FRAMES 32

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} chain SEC(".maps");

static __always_inline int lose(struct sample *sm, enum so_loss cause)
{
	sm->slot->lost[cause]++;
	return 0;
}

static __always_inline void report(__u32 type, __u32 tgid, __u32 other, __u32 slot, __u64 generation)
{
	struct so_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	e->type = type;
	e->tgid = tgid;
	e->other = other;
	e->slot = slot;
	e->time_ns = bpf_ktime_get_ns();
	e->generation = generation;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
}

/* Once between two readings of the process's mappings: for the daemon to confirm them, in its own time. */
static __always_inline void report_change(struct sample *sm, __u64 generation)
{
	if (!generation || generation == sm->process->generation || sm->process->reported)
		return;
	sm->process->reported = generation;
	report(SO_EVENT_MAPS, sm->tgid, 0, sm->process->slot, generation);
}

/*
 * The user registers of the sampled thread, from the interrupt or, if that hit the kernel, from its entry into it.
 * The two sources are kept apart by barriers: merged, they would be one context pointer of unknown offset.
 */
static __always_inline enum so_truncation user_regs(struct bpf_perf_event_data *ctx, struct task_struct *task,
						    struct so_unwind *u)
{
	struct uprobe_task *utask = probed_task(task);
	struct pt_regs *saved, regs;
	__u64 cs = ctx->regs.cs;
	bool exception = false;

	if ((cs & CODE_SEGMENT_RPL) == CODE_SEGMENT_RPL) {
		copy_regs(u->regs, &ctx->regs);
		u->pc = ctx->regs.rip;
		barrier();
	} else {
		if (have_task_pt_regs)
			saved = (struct pt_regs *)bpf_task_pt_regs(task);
		else
			saved = (struct pt_regs *)(BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES) - 1;
		if (bpf_probe_read_kernel(&regs, sizeof(regs), saved))
			return SO_TRUNC_NO_USER;
		cs = regs.cs;
		copy_regs(u->regs, &regs);
		u->pc = regs.rip;
		exception = regs.orig_rax == NO_SYSTEM_CALL;
		barrier();
	}
	if ((cs & CODE_SEGMENT_RPL) != CODE_SEGMENT_RPL)
		return SO_TRUNC_NO_USER;
	if (utask && !leave_probe_page(task, utask, &u->pc, &u->regs[SO_REG_RSP]) && exception &&
	    is_behind_breakpoint(u->pc))
		u->pc--;
	return cs == CODE_SEGMENT_USER64 ? SO_TRUNC_NONE : SO_TRUNC_COMPAT;
}

static long step(__u32 i, void *ctx)
{
	struct sample *sm = ctx;
	int done = uw_step(sm->u);

	uw_note_call(sm->u);
	return done;
}

/* The same for the chain. A global function is verified once, not once for each turn of the loop around it. */
__noinline int step_chained(void)
{
	__u32 zero = 0;
	struct so_unwind *u = bpf_map_lookup_elem(&scratch, &zero);
	int done;

	if (!u)
		return 1;
	done = uw_step(u);
	uw_note_call(u);
	return done;
}

/* The interpreter of the current process, if one is known. */
static __always_inline const struct so_python *interpreter(const struct so_process *process)
{
	__u32 i = process->python.build;

	return i ? &pythons[(i - 1) & (SO_MAX_PYTHONS - 1)] : NULL;
}

struct python_step {
	struct so_python_walk *w;
	const struct so_python *p;
};

static long step_python(__u32 i, void *ctx)
{
	struct python_step *s = ctx;

	return py_step(s->w, s->p);
}

/* The same without bpf_loop: one turn of a global function, which is verified once. */
__noinline int step_python_bounded(__u32 place)
{
	__u32 zero = 0;
	struct so_python_walk *w = bpf_map_lookup_elem(&python_scratch, &zero);

	return w ? py_step(w, &pythons[place & (SO_MAX_PYTHONS - 1)]) : 1;
}

/* Walks the thread's Python frames, whatever becomes of its native ones. */
static __always_inline void walk_python(struct sample *sm, bool by_loop)
{
	const struct so_python *p = interpreter(sm->process);
	struct python_step s = { .p = p };
	struct task_struct *task;
	__u32 zero = 0;

	sm->w = NULL;
	sm->u->python = 0;
	if (!p)
		return;
	/* A thread that is exiting has no memory any more, and no Python frames. */
	task = current_task();
	if (!memory_map(task))
		return;
	s.w = sm->w = bpf_map_lookup_elem(&python_scratch, &zero);
	if (!s.w)
		return;
	sm->u->python = 1;
	s.w->state = SO_PYTHON_STATE_DEPTH;
	if (py_begin(s.w, p, &sm->process->python,
		     have_task_btf ? task->thread.fsbase : BPF_CORE_READ(task, thread.fsbase)))
		return;
	if (by_loop) {
		bpf_loop(PY_MAX_STEPS, step_python, &s, 0);
	} else {
		for (int i = 0; i < PY_MAX_STEPS; i++) {
			if (step_python_bounded(sm->process->python.build - 1))
				break;
		}
	}
}

/* Constant offsets, and no branch on what a read gave: every verifier follows that at once. */
static __always_inline void copy_stack(struct so_stack_copy *copy, __u64 base)
{
	copy->base = base;
#pragma unroll
	for (__u32 i = 0; i < SO_COPY_PAGES; i++)
		copy->unreadable[i] = bpf_probe_read_user((void *)copy->words + i * SO_PAGE_BYTES, SO_PAGE_BYTES,
							  (const void *)(base + i * SO_PAGE_BYTES));
}

/* The stack's end: the main thread's as the kernel set it up, another's at its thread control block (C libraries). */
static __always_inline __u64 stack_end(__u64 rsp)
{
	struct task_struct *task = current_task();
	struct mm_struct *mm = memory_map(task);
	__u64 end, block;

	if (!mm)
		return 0;
	end = have_task_btf ? mm->start_stack : BPF_CORE_READ(mm, start_stack);
	block = have_task_btf ? task->thread.fsbase : BPF_CORE_READ(task, thread.fsbase);
	if (block > rsp && (block < end || end <= rsp))
		end = block;
	return end > rsp ? end : 0;
}

/* The innermost pages of the stack and, where these do not hold them, the outermost. */
static __always_inline void copy_both_ends(struct so_raw_record *raw, __u64 rsp)
{
	__u64 first = (rsp - SO_RED_ZONE_BYTES) & ~(SO_PAGE_BYTES - 1ull), copied = first + sizeof(raw->inner.words);
	__u64 end = (stack_end(rsp) + SO_PAGE_BYTES - 1) & ~(SO_PAGE_BYTES - 1ull);

	copy_stack(&raw->inner, first);
	raw->outer.base = 0;
	if (end > copied)
		copy_stack(&raw->outer,
			   end - copied > sizeof(raw->outer.words) ? end - sizeof(raw->outer.words) : copied);
}

/* Sends the sample for the daemon to unwind, with the registers that u has. False when the ring has no room. */
static __always_inline bool send_raw(struct bpf_perf_event_data *ctx, struct sample *sm)
{
	struct so_raw_record *raw = bpf_ringbuf_reserve(&stacks, sizeof(*raw), 0);
	long bytes = 0;

	if (!raw)
		return false;
	raw->type = SO_RECORD_RAW;
	raw->tgid = sm->tgid;
	raw->tid = sm->tid;
	raw->slot = sm->process->slot;
	raw->stale = sm->u->stale;
	raw->when_ns = bpf_ktime_get_ns();
	raw->n_python = 0;
	raw->python = SO_PYTHON_STATE_NONE;
	raw->flags = 0;
	raw->empty_calls = 0;
	raw->call = 0;
	raw->python_hash = 0;
	if (sm->w) {
		raw->n_python = sm->w->n;
		raw->python = sm->w->state;
		raw->flags = sm->w->flags;
		raw->empty_calls = sm->w->empty_calls;
		raw->call = sm->w->call;
		raw->python_hash = sm->w->hash;
		bpf_probe_read_kernel(raw->python_words, sizeof(raw->python_words), sm->w->words);
	}
	raw->pc = sm->u->pc;
	__builtin_memcpy(raw->regs, sm->u->regs, sizeof(raw->regs));
	bpf_get_current_comm(raw->comm, sizeof(raw->comm));
	if (sm->process->flags & SO_PROCESS_KERNEL && !(ctx->regs.cs & CODE_SEGMENT_RPL))
		bytes = bpf_get_stack(ctx, raw->kernel, SO_MAX_KERNEL_FRAMES * 8, 0);
	raw->n_kernel = bytes > 0 ? bytes / 8 : 0;
	copy_return_probes(current_task(), raw->returns);
	copy_both_ends(raw, sm->u->regs[SO_REG_RSP]);
	bpf_ringbuf_submit(raw, BPF_RB_FORCE_WAKEUP);
	return true;
}

/* Loads the registers and begins to unwind. False when there is no user stack to unwind. */
static __always_inline bool begin_user(struct bpf_perf_event_data *ctx, struct sample *sm)
{
	struct task_struct *task = current_task();
	struct mm_struct *mm = memory_map(task);
	struct so_unwind *u = sm->u;

	uw_clear(u);
	u->cause = mm ? user_regs(ctx, task, u) : SO_TRUNC_NO_USER;
	if (u->cause != SO_TRUNC_NONE || !mm)
		return false;
	uw_start(u, u->pc, sm->process->mappings, sm->process->run);
	u->call = sm->w ? sm->w->call : 0;
	report_change(sm, check_mappings(u, sm->process));
	u->cpu = bpf_get_smp_processor_id();
	return true;
}

/*
 * The stack was cut at code whose rule the daemon can learn, or in a mapping that it has not read yet: sends the sample
 * with its first registers.
 */
static __always_inline bool send_to_daemon(struct bpf_perf_event_data *ctx, struct sample *sm)
{
	return user_regs(ctx, current_task(), sm->u) == SO_TRUNC_NONE && send_raw(ctx, sm);
}

/* Appends the kernel's frames and folds them into the hash. */
static __always_inline void unwind_kernel(struct bpf_perf_event_data *ctx, struct sample *sm)
{
	struct so_unwind *u = sm->u;
	__u32 n = u->n & (SO_MAX_USER_FRAMES - 1), frames;
	long bytes;

	u->record.n_kernel = 0;
	if (!(sm->process->flags & SO_PROCESS_KERNEL) || ctx->regs.cs & CODE_SEGMENT_RPL)
		return;
	if (u->n >= SO_MAX_USER_FRAMES)
		n = u->n = SO_MAX_USER_FRAMES - 1;
	bytes = bpf_get_stack(ctx, &u->frames[n], SO_MAX_KERNEL_FRAMES * 8, 0);
	if (bytes <= 0)
		return;
	frames = (__u32)bytes / 8;
	for (__u32 i = 0; i < SO_MAX_KERNEL_FRAMES; i++) {
		if (i >= frames)
			break;
		u->hash = so_mix(u->hash, u->frames[n + i]);
	}
	u->record.n_kernel = frames;
}

/*
 * Code objects that were sent before, by hash. One that another has displaced counts as new: a wake-up more. Waking
 * takes an interrupt between processors, on a virtual machine more than all else in sending a stack.
 */
#define PYTHON_SEEN_SHIFT 11

struct python_seen {
	__u64 ids[1 << PYTHON_SEEN_SHIFT];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct python_seen);
} python_seen SEC(".maps");

/* Of the walk in `python_scratch`. A function of its own, so that it is verified once. Returns 0. */
__noinline int look_for_new_code(__u32 tgid)
{
	__u32 zero = 0;
	const struct so_python_walk *w = bpf_map_lookup_elem(&python_scratch, &zero);
	struct python_seen *seen = bpf_map_lookup_elem(&python_seen, &zero);
	__u64 fresh = 0;

	if (!w || !seen)
		return 0;
	for (__u32 i = 0; i < SO_MAX_PYTHON_FRAMES; i++) {
		const __u64 *words = &w->words[i * SO_PYTHON_WORDS];
		__u64 id, *known;

		if (i >= w->n)
			break;
		id = so_mix(tgid ^ SO_PYTHON_FRAME_CODE(words[0]), words[1]);
		known = &seen->ids[id >> (64 - PYTHON_SEEN_SHIFT)];
		fresh |= *known ^ id;
		*known = id;
	}
	if (fresh)
		python_unread = 1;
	return 0;
}

/* Two CPUs may both find that it is time; one wake-up more does no harm. */
static __always_inline bool is_time_to_wake(void)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - last_wakeup_ns < python_wakeup_ns)
		return false;
	last_wakeup_ns = now;
	python_unread = 0;
	return true;
}

static __always_inline bool send_stack(struct sample *sm, __u64 hash)
{
	struct so_unwind *u = sm->u;
	__u32 frames = u->n + u->record.n_kernel;
	__u64 flags = BPF_RB_NO_WAKEUP;
	__u32 python = 0;

	if (frames > SO_MAX_FRAMES)
		return false;
	u->record.n_python = 0;
	u->record.python = SO_PYTHON_STATE_NONE;
	u->record.empty_calls = 0;
	u->record.call_at = u->call_at;
	if (sm->w) {
		python = sm->w->n;
		if (python > SO_MAX_PYTHON_FRAMES)
			return false;
		u->record.n_python = python;
		u->record.python = sm->w->state;
		u->record.empty_calls = sm->w->empty_calls;
		u->flags |= sm->w->flags;
		bpf_probe_read_kernel(&u->frames[frames], python * sizeof(__u64) * SO_PYTHON_WORDS, sm->w->words);
		look_for_new_code(sm->tgid);
		python *= SO_PYTHON_WORDS;
	}
	u->record.type = SO_RECORD_STACK;
	u->record.n_user = u->n;
	u->record.hash = hash;
	u->record.tgid = sm->tgid;
	u->record.cause = u->cause;
	u->record.flags = u->flags;
	if (bpf_ringbuf_query(&stacks, BPF_RB_AVAIL_DATA) > ring_wakeup_bytes || (python_unread && is_time_to_wake()))
		flags = BPF_RB_FORCE_WAKEUP;
	return !bpf_ringbuf_output(&stacks, &u->record, sizeof(u->record) + (frames + python) * 8, flags);
}

static __always_inline int count(struct sample *sm)
{
	struct so_unwind *u = sm->u;
	struct so_count_key key = { .tgid = sm->tgid, .tid = sm->tid }, marker = {};
	struct so_count first = { .count = 1 }, *known;
	__u32 zero = 0;
	void *window;

	key.stack = uw_stack_hash(u, sm->tgid);
	if (sm->w && sm->w->state != SO_PYTHON_STATE_NONE)
		key.stack = py_stack_hash(key.stack, sm->w->hash, sm->tgid, sm->w->flags, sm->w->state);
	if (sm->process->flags & SO_PROCESS_TIMED)
		key.when_ns = bpf_ktime_get_ns();
	window = bpf_map_lookup_elem(&open_window, &zero);
	if (!window)
		return lose(sm, SO_LOSS_NO_BUFFER);
	known = bpf_map_lookup_elem(window, &key);
	if (known) {
		__sync_fetch_and_add(&known->count, 1);
		return 0;
	}
	marker.stack = key.stack;
	if (!bpf_map_lookup_elem(window, &marker)) {
		if (!send_stack(sm, key.stack))
			return lose(sm, SO_LOSS_RING_FULL);
		if (bpf_map_update_elem(window, &marker, &first, BPF_ANY))
			return lose(sm, SO_LOSS_STACKS_FULL);
	}
	first.slot = sm->process->slot;
	bpf_get_current_comm(first.comm, sizeof(first.comm));
	/* One thread runs on one CPU at a time, so no other sample can have inserted the same key meanwhile. */
	if (bpf_map_update_elem(window, &key, &first, BPF_ANY))
		return lose(sm, SO_LOSS_COUNTS_FULL);
	return 0;
}

/* The frames are there: the kernel's are added, and the stack is counted. */
static __always_inline int finish(struct bpf_perf_event_data *ctx, struct sample *sm)
{
	if ((sm->u->learn || uw_is_stale(sm->u)) && send_to_daemon(ctx, sm))
		return 0;
	unwind_kernel(ctx, sm);
	return count(sm);
}

#define TOUCH(x)       ((void)*(const volatile __u8 *)&(x))
#define TOUCHED_FRAMES 16

/*
 * Loads what the sample is going to need, a word of each cache line, at once: these loads do not wait for one another,
 * while each of them would be waited for later. rip: where the sample hit, if that was in user space.
 */
static __always_inline void touch(const struct sample *sm, __u64 rip)
{
	__u32 zero = 0, sample = SO_PROGRAM_SAMPLE, cpu = bpf_get_smp_processor_id();
	const struct so_program_time *time = bpf_map_lookup_elem(&program_times, &sample);
	const struct so_python_walk *w = bpf_map_lookup_elem(&python_scratch, &zero);
	struct so_frame_cache *cache = uw_cache(cpu);
	const struct so_unwind *u = sm->u;
	const __u16 *leaf;

	if (!time || !w || !cache)
		return;
	/* The leaf's cached frame, and those of the outermost frames, where the sample before ended. */
	leaf = uw_cache_index(cache, rip);
	TOUCH(cache->frames[leaf[0] & (UW_CACHE_ENTRIES - 1)]);
#pragma unroll
	for (__u32 i = 0; i < TOUCHED_FRAMES; i += 2)
		TOUCH(cache->frames[(u->cached - i) & (UW_CACHE_ENTRIES - 1)]);
	TOUCH(cache->next);
	TOUCH(sm->process->python);
	TOUCH(pythons[(sm->process->python.build - 1) & (SO_MAX_PYTHONS - 1)]);
	TOUCH(sm->slot->taken);
	TOUCH(u->regs[0]);
	TOUCH(u->regs[8]);
	TOUCH(u->record);
	TOUCH(u->frames[0]);
	TOUCH(u->frames[16]);
	TOUCH(w->thread);
	TOUCH(w->code[0]);
	TOUCH(w->words[0]);
	TOUCH(w->words[8]);
#pragma unroll
	for (__u32 i = 0; i < 64; i += 8) {
		TOUCH(u->window[i]);
		TOUCH(w->window[i]);
	}
	TOUCH(time->runs);
	TOUCH(last_wakeup_ns);
}

static __always_inline bool lookup(struct sample *sm)
{
	__u32 slot, zero = 0;

	sm->process = bpf_map_lookup_elem(&processes, &sm->tgid);
	if (!sm->process)
		return false;
	slot = sm->process->slot;
	sm->slot = bpf_map_lookup_elem(&slots, &slot);
	sm->u = bpf_map_lookup_elem(&scratch, &zero);
	return sm->slot && sm->u;
}

/* What the program took since begin_ns. Atomic: a tracepoint's program may be preempted by another task's. */
static __always_inline __u64 note_run(__u32 program, __u64 begin_ns)
{
	struct so_program_time *time = bpf_map_lookup_elem(&program_times, &program);
	__u64 ns = bpf_ktime_get_ns() - begin_ns;

	if (time) {
		__sync_fetch_and_add(&time->runs, 1);
		__sync_fetch_and_add(&time->ns, ns);
	}
	return ns;
}

/* This CPU's, and nothing interrupts the program that could write to it. */
static __always_inline int account(const struct sample *sm, __u64 begin_ns)
{
	sm->slot->run_ns += note_run(SO_PROGRAM_SAMPLE, begin_ns);
	return 0;
}

static __always_inline int take_sample(struct bpf_perf_event_data *ctx, bool by_loop)
{
	__u64 id = bpf_get_current_pid_tgid(), begin_ns = bpf_ktime_get_ns();
	struct sample sm = { .tgid = id >> 32, .tid = (__u32)id };

	if (!lookup(&sm) || !(sm.process->flags & SO_PROCESS_ACTIVE) ||
	    sm.process->rate_hz != (ctx->sample_period & SO_RATE_MASK)) {
		note_run(SO_PROGRAM_SAMPLE, begin_ns);
		return 0;
	}
	touch(&sm, ctx->regs.rip);
	sm.slot->taken++;
	if (!may_look(sm.process)) {
		lose(&sm, SO_LOSS_NOT_PERMITTED);
		return account(&sm, begin_ns);
	}
	walk_python(&sm, by_loop);
	if (begin_user(ctx, &sm)) {
		if (by_loop) {
			bpf_loop(SO_MAX_USER_FRAMES + 1, step, &sm, 0);
		} else {
			sm.u->begin_ns = begin_ns;
			bpf_tail_call(ctx, &chain, 0);
			lose(&sm, SO_LOSS_NO_BUFFER);
			return account(&sm, begin_ns);
		}
	}
	finish(ctx, &sm);
	return account(&sm, begin_ns);
}

SEC("?perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	return take_sample(ctx, true);
}

/* Without bpf_loop (5.17): a chain of programs. Apart, as kernels before 5.13 refuse a function's address anywhere. */
SEC("?perf_event")
int sample_first(struct bpf_perf_event_data *ctx)
{
	return take_sample(ctx, false);
}

/* Goes on where the program before it in the chain stopped; what they share is in `scratch`. */
SEC("?perf_event")
int sample_chained(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct sample sm = { .tgid = id >> 32, .tid = (__u32)id };
	__u32 zero = 0;
	int done = 0;

	if (!lookup(&sm))
		return 0;
	if (sm.u->python)
		sm.w = bpf_map_lookup_elem(&python_scratch, &zero);
	for (int i = 0; i < CHAIN_FRAMES && !done; i++)
		done = step_chained();
	if (!done) {
		bpf_tail_call(ctx, &chain, 0);
		sm.u->cause = SO_TRUNC_DEPTH;
	}
	finish(ctx, &sm);
	return account(&sm, sm.u->begin_ns);
}

/*
 * By slot; the last one is of all. A race between CPUs may count a step in the wrong second, or let one more in: that
 * does no harm.
 */
struct so_step_rate step_rates[SO_MAX_SLOTS + 1];

static __always_inline bool is_too_fast(__u32 slot, __u32 most, __u64 second)
{
	struct so_step_rate *rate = &step_rates[slot <= SO_MAX_SLOTS ? slot : SO_MAX_SLOTS];

	if (rate->second != second) {
		rate->second = second;
		rate->steps = 0;
	}
	if (rate->steps >= most)
		return true;
	__sync_fetch_and_add(&rate->steps, 1); /* its result is of no use before 5.12 */
	return false;
}

/* A step of the program begins, or a counted function is entered: a stack of its own, with the time. */
static __always_inline int count_mark(__u32 mark, __u64 at)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct so_count_key key = { .tgid = id >> 32, .tid = (__u32)id, .stack = SO_STEP_STACK + mark };
	struct so_process *process = bpf_map_lookup_elem(&processes, &key.tgid);
	struct so_count first = { .count = 1, .at = (__u32)at };
	struct so_slot *slot;
	__u32 zero = 0;
	void *window;

	if (!process || !(process->flags & SO_PROCESS_ACTIVE) || !(process->flags & SO_PROCESS_TIMED))
		return 0;
	window = bpf_map_lookup_elem(&open_window, &zero);
	if (!window)
		return 0;
	key.when_ns = bpf_ktime_get_ns();
	first.slot = process->slot;
	bpf_get_current_comm(first.comm, sizeof(first.comm));
	if (!is_too_fast(first.slot, mark ? SO_ENTRIES_OF(SO_STEPS_A_SECOND) : SO_STEPS_A_SECOND, key.when_ns >> 30) &&
	    !is_too_fast(SO_MAX_SLOTS, mark ? SO_ENTRIES_OF(SO_ALL_STEPS_A_SECOND) : SO_ALL_STEPS_A_SECOND,
			 key.when_ns >> 30) &&
	    !bpf_map_update_elem(window, &key, &first, BPF_ANY))
		return 0;
	slot = bpf_map_lookup_elem(&slots, &first.slot);
	if (slot)
		__sync_fetch_and_add(mark ? &slot->entries_lost : &slot->steps_lost, 1);
	return 0;
}

/* On a function's entry, and on a watchpoint of a bytecode instruction. A program a mark: cookies are of 5.15. */
#define MARK(n)                                                \
	SEC("kprobe")                                          \
	int on_mark_##n(struct pt_regs *ctx)                   \
	{                                                      \
		return count_mark(n, ctx->rip);                \
	}                                                      \
	SEC("perf_event")                                      \
	int on_mark_watch_##n(struct bpf_perf_event_data *ctx) \
	{                                                      \
		return count_mark(n, ctx->regs.rip);           \
	}
MARK(0)
MARK(1)
MARK(2)
MARK(3)
_Static_assert(SO_MARKS == 4, "a program a mark");

static __always_inline void follow_fork(__u32 parent_tgid, __u32 child_tgid)
{
	struct so_process *p = bpf_map_lookup_elem(&processes, &parent_tgid), copy;

	if (!p || !(p->flags & SO_PROCESS_FOLLOW))
		return;
	copy = *p;
	copy.past = 0;
	copy.generation = 0;
	copy.reported = 0;
	if (bpf_map_update_elem(&processes, &child_tgid, &copy, BPF_ANY)) {
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	report(SO_EVENT_FORK, child_tgid, parent_tgid, copy.slot, 0);
}

/* A child of a target is a target from its first instruction on: this runs before it can. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	__u64 begin_ns = bpf_ktime_get_ns();

	if (parent_tgid != child_tgid)
		follow_fork(parent_tgid, child_tgid);
	note_run(SO_PROGRAM_FORK, begin_ns);
	return 0;
}

static __always_inline void follow_exec(__u32 tgid)
{
	struct so_process *p = bpf_map_lookup_elem(&processes, &tgid);

	if (!p)
		return;
	p->mappings = 0;
	p->past = 0;
	p->generation = 0;
	p->reported = 0;
	p->python.build = 0;
	report(SO_EVENT_EXEC, tgid, p->uid && !has_rights_of(p), p->slot, 0);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
	__u64 begin_ns = bpf_ktime_get_ns();

	follow_exec(task->tgid);
	note_run(SO_PROGRAM_EXEC, begin_ns);
	return 0;
}

static __always_inline void follow_exit(__u32 tgid)
{
	struct so_process *p = bpf_map_lookup_elem(&processes, &tgid);

	if (p)
		report(SO_EVENT_EXIT, tgid, 0, p->slot, 0);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u64 begin_ns = bpf_ktime_get_ns();

	if (!task->signal->live.counter)
		follow_exit(task->tgid);
	note_run(SO_PROGRAM_EXIT, begin_ns);
	return 0;
}
