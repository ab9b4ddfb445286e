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

#include "bpf/cuda/cuda_arguments.h"
#include "bpf/cuda/cuda_handles.h"
#include "bpf/cuda/cuda_memory.h"
#include "bpf/cuda/cuda_names.h"
#include "bpf/cuda/cuda_stack.h"

char LICENSE[] SEC("license") = "GPL";

#define SAME_ENTRY_NS 5000 /* between two probes on one entry, at most */
#define MAX_ENTRY_NS  4000 /* what is longer was interrupted */
#define NOT_READY     600  /* cudaErrorNotReady, CUDA_ERROR_NOT_READY: what a query says of work that goes on */

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

/* caller: the return address. */
static __always_inline void count_call(const struct so_cuda_call *c, __u32 api, __u64 ns, bool failed,
				       __u64 caller)
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
	if (c->has_stream)
		calls->stream = c->stream;
	calls->caller = caller;
	if (failed) {
		calls->errors++;
		return;
	}
	calls->bytes += c->bytes;
	if (calls_info[api].does == SO_CUDA_LAUNCH)
		add_launch(calls, c);
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

static __always_inline void finish(struct pt_regs *ctx, struct so_cuda_call *c, __u32 api, __u64 ns)
{
	__u32 kind = calls_info[api].kind, does = calls_info[api].does, code = (__u32)ctx->rax, period;
	bool failed = code && !(does == SO_CUDA_EVENT && code == NOT_READY);
	__u64 stack = 0;

	count_call(c, api, ns, failed, ctx->rip);
	if (failed) {
		count_error(c, bpf_get_current_pid_tgid() >> 32, api, code);
		c->bytes = 0;
	}
	period = stack_period(control_of(c->cookie), kind, ns);
	if (have_loop && period && (period == 1 || bpf_get_prandom_u32() % period == 0))
		stack = take_stack(ctx, c, api, ns, period);
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

/*
 * Whether the thread's call has ended unseen, or may have, as its probes went while it was under way, with those of all calls of its
 * kind: it would make all calls further down the stack nested ones.
 */
static __always_inline bool is_over(const struct so_cuda_call *c, __u64 cookie)
{
	__u32 api = SO_CUDA_COOKIE_CALL(c->cookie), kind;

	if (SO_CUDA_COOKIE_SLOT(c->cookie) != SO_CUDA_COOKIE_SLOT(cookie) || api >= SO_CUDA_API_COUNT)
		return true;
	kind = calls_info[bounded_api(api)].kind & (SO_CUDA_KIND_ROOM - 1);
	return control_of(cookie)->off[kind] || c->begin_ns < control_of(cookie)->since_ns[kind];
}

static __always_inline __u32 own_ns(const struct so_cuda_own *own, __u64 program_ns)
{
	__u64 ns = own->ns;

	if (program_ns > own->program_ns && program_ns <= own->interrupted_ns)
		ns += (program_ns - own->program_ns) * own->slope >> 8;
	return ns < own->most_ns ? ns : own->most_ns;
}

/* Not 0: the return is of no interest. */
static __always_inline int enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 call = SO_CUDA_COOKIE_CALL(cookie);
	struct so_cuda_slot *slot = slot_of(cookie);
	__u32 stepped = !!(cookie & SO_CUDA_COOKIE_STEPPED);
	struct arguments a;
	struct so_cuda_call *c;
	__u64 begin, program_ns;

	if (!slot)
		return 1;
	read_registers(ctx, &a);
	begin = bpf_ktime_get_ns();
	slot->hits++;
	slot->stepped += stepped;
	if (!control_of(cookie)->on)
		return 1;
	c = thread_call(true);
	if (!c) {
		slot->lost[SO_CUDA_LOSS_STATE]++;
		return 1;
	}
	if (call >= SO_CUDA_API_COUNT)
		return enter_namer(&a, c, cookie, call - SO_CUDA_API_COUNT);
	call = bounded_api(call);
	note_called(cookie, call);
	if (is_off(control_of(cookie), call)) {
		note_slice(cookie, call, begin);
		return 1;
	}
	if (c->active && is_over(c, cookie))
		c->active = 0;
	/* Of what all entries do, as those of calibration: reading arguments is no sign of cold caches. */
	program_ns = bpf_ktime_get_ns() - begin;
	note_slice(cookie, call, begin);
	if (c->active) {
		if (a.rsp < c->sp) {
			slot->nested++;
			slot->stepped_counted += stepped;
			c->own_ns += own_ns(&control_of(cookie)->nested, program_ns) +
				     stepped * control_of(cookie)->stepped_ns;
			return 1;
		}
		/*
		 * That call is over: it was left by a jump. Or this is the same entry, which has two probes while the
		 * daemon places others.
		 */
		if (a.rsp != c->sp || c->cookie != cookie || bpf_ktime_get_ns() - c->begin_ns > SAME_ENTRY_NS)
			slot->lost[SO_CUDA_LOSS_UNFINISHED]++;
	}
	if (calls_info[call].of == SO_CUDA_OF_DRIVER && is_called_by_runtime(&a)) {
		c->active = 0;
		slot->nested++;
		slot->stepped_counted += stepped;
		return 1;
	}
	c->cookie = cookie;
	c->sp = a.rsp;
	read_arguments(c, ctx, &a, call);
	c->others_before = tally_of(cookie)->calls;
	c->begin_ns = bpf_ktime_get_ns();
	/* Behind what the daemon reads of a call under way. */
	asm volatile("" ::: "memory");
	c->active = 1;
	slot->entries++;
	slot->stepped_counted += stepped;
	slot->entries_ns += program_ns < MAX_ENTRY_NS ? program_ns : MAX_ENTRY_NS;
	c->own_ns = own_ns(&control_of(cookie)->own, program_ns) + stepped * control_of(cookie)->stepped_ns;
	return 0;
}

static __always_inline int leave(struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns(), ns, own;
	__u32 call = SO_CUDA_COOKIE_CALL(cookie), kind;
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
	if (!c->active || c->cookie != cookie || ctx->rsp != c->sp + 8)
		return 0;
	c->active = 0;
	/* Switched off meanwhile: what began before does not count, as what began meanwhile does not. */
	if (is_off(control_of(cookie), call))
		return 0;
	slot->calls++;
	ns = now - c->begin_ns;
	kind = bounded_kind(calls_info[call].kind);
	if (control_of(cookie)->segment[kind]) {
		slot->overlapped += tally_of(cookie)->calls - c->others_before;
		__sync_fetch_and_add(&tally_of(cookie)->calls, 1);
	} else {
		c->waits++;
		c->away_ns += ns;
		c->gone_ns = c->begin_ns;
		c->back_ns = now;
		c->others += tally_of(cookie)->calls - c->others_before;
	}
	own = c->own_ns;
	ns = ns > own ? ns - own : 0;
	slot->kinds[kind]++;
	slot->kinds_ns[kind] += min_ns(ns, control_of(cookie)->stack_time_ns[kind]);
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
