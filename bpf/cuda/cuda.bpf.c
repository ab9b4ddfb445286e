// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CUDA calls, timed on the host between a function's entry and its return, or counted at the entry alone, where the
 * daemon says so of the unit (struct so_cuda_control). A call adds to the counters of its thread, call and kernel;
 * one in so many timed calls also has its stack taken. What a call nests is not counted: the runtime's calls make the
 * driver's.
 *
 * The stack is taken at the return: duration and outcome are known there, the registers are those of the caller
 * again, and the return address that the probe had replaced is back in its place.
 */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/cuda_arguments.h"
#include "bpf/cuda/cuda_events.h"
#include "bpf/cuda/cuda_handles.h"
#include "bpf/cuda/cuda_launches.h"
#include "bpf/cuda/cuda_memory.h"
#include "bpf/cuda/cuda_names.h"
#include "bpf/cuda/cuda_stack.h"

char LICENSE[] SEC("license") = "GPL";

#define SAME_ENTRY_NS  5000     /* between two probes on one entry, at most */
#define JUMP_NS        20000000 /* to the entry of the one that it only jumps to; it may lose its CPU there */
#define MAX_PROGRAM_NS 8000     /* what is longer was interrupted */
#define NOT_READY      600      /* cudaErrorNotReady, CUDA_ERROR_NOT_READY: what a query says of work that goes on */

static __always_inline void count_error(const struct so_cuda_call *c, __u32 tgid, __u32 api, __u32 code)
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
	if (key->kernel && launches_handle(bounded_api(key->api)))
		tell_handle(key->kernel, 0, SO_CUDA_READ_HANDLE);
	bpf_map_update_elem(&cuda_calls, key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cuda_calls, key);
}

static __always_inline void add_launch(struct so_cuda_calls *calls, const struct so_cuda_call *c)
{
	__u64 blocks = (__u64)c->grid[0] * c->grid[1] * c->grid[2];

	calls->blocks += blocks;
	calls->threads += blocks * c->block[0] * c->block[1] * c->block[2];
	__builtin_memcpy(calls->grid, c->grid, sizeof(calls->grid));
	__builtin_memcpy(calls->block, c->block, sizeof(calls->block));
}

/* The counters for calls of that octave. NULL: there is no room, which is counted. */
static __always_inline struct so_cuda_calls *counters_of(const struct so_cuda_call *c, __u64 cookie, __u32 api,
							 __u32 octave)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct so_cuda_key key = { .tgid = id >> 32,
				   .tid = (__u32)id,
				   .kernel = c->kernel,
				   .library = SO_CUDA_COOKIE_LIBRARY(cookie),
				   .api = api,
				   .direction = c->direction,
				   .octave = octave };
	struct so_cuda_calls *calls = calls_of(&key);

	if (!calls)
		lose(cookie, SO_CUDA_LOSS_CALLS_FULL);
	return calls;
}

static __always_inline void add_call(struct so_cuda_calls *calls, const struct so_cuda_call *c, __u32 api, __u64 caller,
				     bool failed)
{
	calls->calls++;
	calls->caller = caller;
	if (c->has_stream)
		calls->stream = c->stream;
	if (failed) {
		calls->errors++;
		return;
	}
	calls->bytes += c->bytes;
	if (calls_info[api].does == SO_CUDA_LAUNCH)
		add_launch(calls, c);
}

/* Where it returns to is not read: a call that is timed tells it. */
static __always_inline void count_untimed(const struct so_cuda_call *c, __u64 cookie, __u32 api)
{
	struct so_cuda_calls *calls = counters_of(c, cookie, api, SO_CUDA_UNTIMED);

	if (!calls)
		return;
	add_call(calls, c, api, 0, false);
	calls->buckets[0]++;
}

/* caller: the return address. */
static __always_inline void count_call(const struct so_cuda_call *c, __u32 api, __u64 ns, bool failed, __u64 caller)
{
	__u32 octave = latency_octave(ns);
	struct so_cuda_calls *calls = counters_of(c, c->cookie, api, octave);
	__u64 scaled = ns >> latency_square_shift(octave);

	if (!calls)
		return;
	add_call(calls, c, api, caller, failed);
	calls->total_ns += ns;
	calls->squares += scaled * scaled;
	if (ns < calls->min_ns)
		calls->min_ns = ns;
	if (ns > calls->max_ns)
		calls->max_ns = ns;
	calls->buckets[latency_bucket(ns, octave) & (LATENCY_BUCKETS - 1)]++;
}

static __always_inline __u64 min_ns(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* One stack in so many calls that take so long; 0: none. */
static __always_inline __u32 stack_period(const struct so_cuda_control *control, __u32 kind, __u64 ns)
{
	__u32 period;
	__u64 time_ns, by_time;

	kind = bounded_kind(kind);
	period = control->stack_period[kind];
	time_ns = control->stack_time_ns[kind];
	if (period < 2 || !time_ns || !ns)
		return period;
	by_time = ns < time_ns ? time_ns / ns : 1;
	return by_time < period ? by_time : period;
}

/* What both programs of the call have taken, up to now. */
static __always_inline void end_timed(const struct so_cuda_call *c, __u64 return_ns)
{
	struct so_cuda_slot *slot = slot_of(c->cookie);
	__u64 ns = c->program_ns + bpf_ktime_get_ns() - return_ns;

	if (slot && ns < MAX_PROGRAM_NS) {
		slot->timed++;
		slot->timed_ns += ns;
	}
}

struct so_cuda_call_rate call_rates[SO_CUDA_SLOTS], all_calls;

/* Two CPUs may turn the second at once: some calls more are let in then. */
static __always_inline bool is_too_fast(struct so_cuda_call_rate *rate, __u32 most, __u64 second)
{
	if (rate->second != second) {
		rate->second = second;
		rate->calls = 0;
	}
	if (rate->calls >= most)
		return true;
	__sync_fetch_and_add(&rate->calls, 1);
	return false;
}

/* A record of the slot's, if there may be one more in this second. NULL: one is missed. */
static __always_inline struct so_call_record *begin_record(__u32 slot)
{
	__u64 second = bpf_ktime_get_ns() >> 30;
	struct so_cuda_call_rate *rate = &call_rates[slot & (SO_CUDA_SLOTS - 1)];
	struct so_call_record *record = NULL;

	if (!is_too_fast(rate, SO_CALLS_A_SECOND, second) && !is_too_fast(&all_calls, SO_ALL_CALLS_A_SECOND, second))
		record = bpf_ringbuf_reserve(&stacks, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&rate->missed, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->type = SO_RECORD_CALL;
	record->slot = slot;
	record->tgid = bpf_get_current_pid_tgid() >> 32;
	record->missed = rate->missed;
	rate->missed = 0;
	return record;
}

/* Returns whether the launch that the call waited for is reported. */
static __always_inline bool tell_awaited(const struct so_cuda_launch *launch, __u32 slot)
{
	struct so_call_record *record = launch->begin_ns ? begin_record(slot) : NULL;

	if (!record)
		return false;
	record->tid = launch->tid;
	record->api = launch->api;
	record->begin_ns = launch->begin_ns;
	record->ns = launch->ns;
	record->kernel = launch->kernel;
	record->stream = launch->stream;
	record->has_stream = launch->has_stream;
	bpf_ringbuf_submit(record, 0);
	return true;
}

/* A call of a time line. */
static __noinline int tell_call(struct so_cuda_call *c, __u32 api, __u64 ns)
{
	__u32 slot;
	struct so_call_record *record;
	bool awaited;

	if (!c)
		return 0;
	slot = SO_CUDA_COOKIE_SLOT(c->cookie);
	awaited = tell_awaited(&c->awaited, slot);
	record = begin_record(slot);
	if (!record)
		return 0;
	record->tid = (__u32)bpf_get_current_pid_tgid();
	record->api = api;
	record->begin_ns = c->begin_ns;
	record->ns = ns;
	record->bytes = c->bytes;
	record->kernel = c->kernel;
	record->stream = c->has_stream ? c->stream : 0;
	record->has_stream = c->has_stream;
	if (awaited) {
		record->awaited_begin_ns = c->awaited.begin_ns;
		record->awaited_tid = c->awaited.tid;
	}
	bpf_ringbuf_submit(record, 0);
	return 0;
}

/* return_ns: when the call returned. */
static __always_inline void finish(struct pt_regs *ctx, struct so_cuda_call *c, __u32 api, __u64 ns, __u64 return_ns)
{
	__u32 kind = calls_info[api].kind, does = calls_info[api].does, code = (__u32)ctx->rax, period;
	bool failed = code && !(does == SO_CUDA_EVENT && code == NOT_READY);
	__u64 stack = 0;

	count_call(c, api, ns, failed, ctx->rip);
	if (failed) {
		count_error(c, bpf_get_current_pid_tgid() >> 32, api, code);
		c->bytes = 0;
		c->needless = 0;
	} else if (does == SO_CUDA_SYNC) {
		c->needless = ns < SO_CUDA_IDLE_NS;
	}
	if (is_told(c->cookie)) {
		if (does == SO_CUDA_LAUNCH && !failed)
			note_launch(c, c->cookie, api, ns);
		if (ns >= control_of(c->cookie)->tell_ns)
			tell_call(c, api, ns);
	}
	end_timed(c, return_ns);
	period = stack_period(control_of(c->cookie), kind, ns);
	if (have_loop && period && (period == 1 || bpf_get_prandom_u32() % period == 0))
		stack = take_stack(ctx, c, api, ns,
				   control_of(c->cookie)->counted[unit_of(api)] ? period * SO_CUDA_TIMED_ONE_IN
										: period);
	if (failed || !c->pointer)
		return;
	if (calls_info[api].args >= SO_CUDA_ARGS_CREATE)
		handle_call(c, api, stack);
	else if (does == SO_CUDA_ALLOC)
		allocated(c, api, stack);
	else if (does == SO_CUDA_FREE)
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

/* Whether the thread's call ended unseen, or may have, as its probes went: all further calls would seem nested. */
static __always_inline bool is_over(const struct so_cuda_call *c, __u64 cookie)
{
	__u32 api = SO_CUDA_COOKIE_CALL(c->cookie);

	if (SO_CUDA_COOKIE_SLOT(c->cookie) != SO_CUDA_COOKIE_SLOT(cookie) || api >= SO_CUDA_API_COUNT)
		return true;
	return control_of(cookie)->off[unit_of(api)] || c->begin_ns < control_of(cookie)->since_ns[unit_of(api)];
}

/* A call of this thread is timed, and this one lies within it. */
static __always_inline bool is_inside(struct so_cuda_call *c, struct so_cuda_slot *slot, const struct arguments *a,
				      __u64 cookie)
{
	if (!c->active)
		return false;
	if (is_over(c, cookie)) {
		/* Of a unit without windows: probes were placed anew while it was under way. */
		if (!control_of(cookie)->segment[unit_of(SO_CUDA_COOKIE_CALL(c->cookie))])
			slot->lost[SO_CUDA_LOSS_UNFINISHED]++;
		c->active = 0;
		return false;
	}
	if (a->rsp < c->sp)
		return true;
	/* It jumped to that function in another library, as those do that load the driver when it is needed. */
	if (a->rsp == c->sp && c->cookie != cookie && SO_CUDA_COOKIE_CALL(c->cookie) == SO_CUDA_COOKIE_CALL(cookie) &&
	    bpf_ktime_get_ns() - c->begin_ns < JUMP_NS)
		return true;
	/* That call is over: a jump left it. Or it is the same entry, with two probes while others are placed. */
	if (a->rsp != c->sp || c->cookie != cookie || bpf_ktime_get_ns() - c->begin_ns > SAME_ENTRY_NS)
		slot->lost[SO_CUDA_LOSS_UNFINISHED]++;
	c->active = 0;
	return false;
}

/* begin: of this program; 0: it is not measured. */
static __always_inline int end_untimed(struct so_cuda_slot *slot, __u64 begin)
{
	__u64 ns = begin ? bpf_ktime_get_ns() - begin : 0;

	if (begin && ns < MAX_PROGRAM_NS) {
		slot->untimed++;
		slot->untimed_ns += ns;
	}
	return 1;
}

/* Not 0: the return is of no interest. */
static __always_inline int enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 call = SO_CUDA_COOKIE_CALL(cookie), unit, draw;
	const struct so_cuda_control *control = control_of(cookie);
	struct so_cuda_slot *slot = slot_of(cookie);
	__u32 stepped = !!(cookie & SO_CUDA_COOKIE_STEPPED);
	struct arguments a;
	struct so_cuda_call *c;
	__u64 begin = 0;
	bool timed;

	if (!slot)
		return 1;
	slot->hits++;
	slot->stepped += stepped;
	if (!control->on || SO_CUDA_COOKIE_GENERATION(cookie) != control->generation)
		return 1;
	unit = unit_of(call);
	if (call < SO_CUDA_API_COUNT && (control->on != SO_CUDA_ON || control->off[unit]))
		return 1;
	draw = bpf_get_prandom_u32() % SO_CUDA_TIMED_ONE_IN;
	timed = !draw || !control->counted[unit];
	if (timed || draw == 1)
		begin = bpf_ktime_get_ns();
	read_registers(ctx, &a);
	c = thread_call(true);
	if (!c) {
		slot->lost[SO_CUDA_LOSS_STATE]++;
		return 1;
	}
	if (call >= SO_CUDA_API_COUNT)
		return enter_namer(&a, c, cookie, call - SO_CUDA_API_COUNT);
	call = bounded_api(call);
	slot->unit_hits[unit]++;
	if (is_inside(c, slot, &a, cookie)) {
		slot->nested++;
		slot->unit_nested[unit]++;
		c->own_ns += control->nested_ns + stepped * control->stepped_ns;
		tell_pair(c, slot, &a, call);
		return end_untimed(slot, begin);
	}
	if (calls_info[call].of == SO_CUDA_OF_DRIVER && is_called_by_runtime(&a)) {
		slot->nested++;
		slot->unit_nested[unit]++;
		return end_untimed(slot, begin);
	}
	read_arguments(c, ctx, &a, cookie, call);
	note_event(c, &a, cookie, call);
	note_awaited(c, &a, cookie, call);
	if (!timed) {
		slot->calls++;
		count_untimed(c, cookie, call);
		if (calls_info[call].does == SO_CUDA_LAUNCH && is_told(cookie))
			note_launch(c, cookie, call, 0);
		return end_untimed(slot, begin);
	}
	c->cookie = cookie;
	c->sp = a.rsp;
	c->own_ns = control->floor_ns + stepped * control->stepped_ns;
	c->begin_ns = bpf_ktime_get_ns();
	c->program_ns = c->begin_ns - begin;
	/* Behind what the daemon reads of a call under way. */
	asm volatile("" ::: "memory");
	c->active = 1;
	return 0;
}

static __always_inline int leave(struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), ns, own;
	__u32 call = SO_CUDA_COOKIE_CALL(cookie), unit;
	const struct so_cuda_control *control = control_of(cookie);
	struct so_cuda_slot *slot = slot_of(cookie);
	struct so_cuda_call *c = thread_call(false);

	if (!slot || !c)
		return 0;
	/* The return of a nested call, which other links than sessions have: its cost is in that of the nested call. */
	if (!c->active || ctx->rsp >= c->sp + 8)
		slot->returns++;
	if (call >= SO_CUDA_API_COUNT) {
		if (call - SO_CUDA_API_COUNT < SO_CUDA_NAMER_COUNT)
			leave_namer(ctx, c, call - SO_CUDA_API_COUNT);
		return 0;
	}
	call = bounded_api(call);
	unit = unit_of(call);
	if (!c->active || c->cookie != cookie || ctx->rsp != c->sp + 8)
		return 0;
	c->active = 0;
	if (!control->on || c->begin_ns < control->since_ns[unit])
		return 0;
	slot->calls++;
	ns = now - c->begin_ns;
	own = c->own_ns;
	ns = ns > own ? ns - own : 0;
	slot->unit_ns[unit] += min_ns(ns, control->stack_time_ns[bounded_kind(calls_info[call].kind)]);
	finish(ctx, c, call, ns, now);
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

/* Whether the probes are perf events. Some code is for these alone: other links are of one process, and go soon. */
const volatile bool perf_events = false;

static __always_inline bool is_own(__u64 cookie)
{
	struct so_cuda_owner owner = { .tgid = bpf_get_current_pid_tgid() >> 32,
				       .library = SO_CUDA_COOKIE_LIBRARY(cookie) };

	return !perf_events || bpf_map_lookup_elem(&cuda_owners, &owner);
}

/* Two threads at once may lose a hit: it is for an order. */
static __always_inline void heat(__u64 cookie)
{
	__u64 *hits, first = 1;

	if (!perf_events)
		return;
	hits = bpf_map_lookup_elem(&cuda_heat, &cookie);
	if (hits)
		++*hits;
	else
		bpf_map_update_elem(&cuda_heat, &cookie, &first, BPF_NOEXIST);
}

SEC("?kprobe/enter")
int cuda_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	heat(cookie);
	if (is_own(cookie))
		enter(ctx, cookie);
	return 0;
}

SEC("?kprobe/leave")
int cuda_leave(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return is_own(cookie) ? leave(ctx, cookie) : 0;
}
