// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls of malloc and its like (stakeout/alloc_abi.h). At the entry of each a random number says whether it is chosen;
 * of those alone the stack is taken and the return is looked at, for the block. At the entry of what frees, the block
 * is looked for among the chosen ones.
 *
 * The maps of a target are its own, in the daemon's hands: they go with the target.
 */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define STACK_RECORD SO_RECORD_ALLOC
#include "bpf/memory/torch_stack.h"
#include "bpf/rights.h"
#include "stakeout/alloc_abi.h"

char LICENSE[] SEC("license") = "GPL";

struct so_alloc_slot alloc_slots[SO_MAX_SLOTS + 1];
struct so_alloc_site no_site;

/* A hash map for each slot, which the daemon makes with the target. */
#define PER_SLOT(name, entries, key_type, value_type)                   \
	struct {                                                        \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);               \
		__uint(max_entries, SO_MAX_SLOTS);                      \
		__type(key, __u32);                                     \
		__array(                                                \
			values, struct {                                \
				__uint(type, BPF_MAP_TYPE_HASH);        \
				__uint(map_flags, BPF_F_NO_PREALLOC);   \
				__uint(max_entries, entries);           \
				__uint(key_size, sizeof(key_type));     \
				__uint(value_size, sizeof(value_type)); \
			});                                             \
	} name SEC(".maps")

PER_SLOT(alloc_blocks, SO_ALLOC_BLOCKS, struct so_alloc_block_key, struct so_alloc_block);
PER_SLOT(alloc_sites, SO_ALLOC_SITES, struct so_alloc_site_key, struct so_alloc_site);

/* A chosen call until it returns. Functions that jump to each other have the same stack pointer: one of them counts. */
struct call_key {
	__u64 thread, sp;
};

struct call {
	struct so_alloc_block block;
	__u64 place; /* where the block's address will be; 0: it is returned */
	__u32 slot, pad;
};

/* A thread that ends in a call leaves its own behind. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, struct call);
} alloc_calls SEC(".maps");

/* The arguments of one call. */
struct request {
	__u64 bytes, block, place;
};

static __always_inline void add(__u64 *to, __u64 n)
{
	__sync_fetch_and_add(to, n);
}

static __always_inline struct so_alloc_site *find_site(__u32 slot, const struct so_alloc_site_key *key, bool make)
{
	void *all = bpf_map_lookup_elem(&alloc_sites, &slot);
	struct so_alloc_site *site;

	if (!all)
		return NULL;
	site = bpf_map_lookup_elem(all, key);
	if (site || !make)
		return site;
	bpf_map_update_elem(all, key, &no_site, BPF_NOEXIST);
	return bpf_map_lookup_elem(all, key);
}

static __always_inline __u32 age_of(__u64 ns)
{
	__u32 age = 0;

	ns >>= SO_ALLOC_AGE_SHIFT;
#pragma unroll
	for (int bits = 16; bits; bits >>= 1) {
		if (ns >> bits) {
			ns >>= bits;
			age += bits;
		}
	}
	return age & (SO_ALLOC_AGES - 1);
}

static __always_inline void count_freed(__u32 slot, __u32 tgid, const struct so_alloc_block *block)
{
	const struct so_alloc_site_key key = { .stack = block->stack, .tgid = tgid, .kind = block->kind };
	struct so_alloc_site *site = find_site(slot, &key, false);
	struct so_alloc_sums *sums;

	if (!site)
		return;
	sums = &site->sums[block->seen & 1];
	add(&sums->freed_bytes, block->bytes);
	add(&sums->freed_calls, block->calls);
	add(&site->ages[age_of(bpf_ktime_get_ns() - block->when_ns)], block->bytes);
}

static __always_inline void take_back(struct so_alloc_slot *s, __u32 slot, __u32 tgid, __u64 address)
{
	struct so_alloc_block_key key = { .address = address, .tgid = tgid };
	void *blocks = bpf_map_lookup_elem(&alloc_blocks, &slot);
	const struct so_alloc_block *old = blocks ? bpf_map_lookup_elem(blocks, &key) : NULL;
	struct so_alloc_block block;

	if (!old)
		return;
	block = *old;
	/* Of two functions that free the same block, one calling the other, one finds it. */
	if (bpf_map_delete_elem(blocks, &key))
		return;
	add(&s->frees, 1);
	count_freed(slot, tgid, &block);
}

/* bytes 0: nothing is asked for, or another function counts it. */
static __always_inline void read_request(const struct pt_regs *ctx, __u64 cookie, struct request *r)
{
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx);

	r->bytes = first;
	switch (SO_ALLOC_COOKIE_SHAPE(cookie)) {
	case SO_ALLOC_FREE:
		r->block = first;
		r->bytes = 0;
		break;
	case SO_ALLOC_ARRAY:
		r->bytes = first == 1 ? second : second == 1 ? first : first * second;
		if (first > 1 && second > 1 && (first | second) >> 32)
			r->bytes = SO_ALLOC_MAX_BYTES;
		break;
	case SO_ALLOC_RESIZE:
		r->block = first;
		r->bytes = !first && (cookie & SO_ALLOC_BY_MALLOC) ? 0 : second;
		break;
	case SO_ALLOC_ALIGNED:
		r->bytes = first <= SO_ALLOC_ALIGNMENT && (cookie & SO_ALLOC_BY_MALLOC) ? 0 : second;
		break;
	case SO_ALLOC_TO_PLACE:
		r->place = first;
		r->bytes = second <= SO_ALLOC_ALIGNMENT && (cookie & SO_ALLOC_BY_MALLOC) ? 0 : PT_REGS_PARM3(ctx);
		break;
	}
	if ((cookie & SO_ALLOC_SMALL) && r->bytes > SO_ALLOC_SMALL_BYTES)
		r->bytes = 0;
}

/* The calling stack, its site made; 0: lost. */
static __always_inline __u64 take_stack(struct pt_regs *ctx, struct so_alloc_slot *s, __u32 slot, __u32 tgid,
					__u32 kind)
{
	__u64 begin_ns = bpf_ktime_get_ns();
	struct so_alloc_site_key key = { .tgid = tgid, .kind = kind };
	struct so_alloc_site *site;
	struct stack_buffer *b;
	__u32 number = 0;

	b = walk_take_buffer(&torch_buffers, BUFFERS_A_CPU, &number);
	if (!b)
		return 0;
	key.stack = walk_stack(ctx, b, number, tgid);
	site = key.stack ? find_site(slot, &key, true) : NULL;
	if (site && !site->sent)
		site->sent = send_stack(b, key.stack, tgid, slot, false);
	/* Without a stack it is known by its site all the same. */
	if (site && !site->sent)
		add(&s->lost, 1);
	walk_release_buffer(b);
	add(&s->stacks_ns, bpf_ktime_get_ns() - begin_ns);
	return site ? key.stack : 0;
}

/* A call that was chosen, by its site; false: that is not known. */
static __always_inline bool count_call(struct so_alloc_slot *s, __u32 slot, __u32 tgid,
				       const struct so_alloc_block *block)
{
	struct so_alloc_site_key at = { .stack = block->stack, .tgid = tgid, .kind = block->kind };
	struct so_alloc_site *site = find_site(slot, &at, false);

	if (!site)
		return false;
	add(&site->chosen, 1);
	add(&site->sums[block->seen & 1].bytes, block->bytes);
	add(&site->sums[block->seen & 1].calls, block->calls);
	add(&s->bytes, block->bytes);
	return true;
}

/* True: its return is to be looked at. */
static __always_inline bool choose(struct pt_regs *ctx, struct so_alloc_slot *s, __u32 slot, __u32 tgid, __u64 cookie,
				   const struct request *r, __u64 chance)
{
	struct call_key key = { .thread = bpf_get_current_pid_tgid(), .sp = ctx->rsp };
	struct call call = { .place = r->place, .slot = slot };

	add(&s->chosen, 1);
	call.block.kind = SO_ALLOC_COOKIE_KIND(cookie);
	call.block.stack = take_stack(ctx, s, slot, tgid, call.block.kind);
	if (!call.block.stack) {
		add(&s->lost, 1);
		return false;
	}
	call.block.bytes = chance >> 32 ? r->bytes : (r->bytes << 32) / chance;
	call.block.calls = SO_ALLOC_CALLS * (1ull << 32) / chance;
	call.block.seen = s->seen & 1;
	call.block.when_ns = bpf_ktime_get_ns();
	if (!(cookie & SO_ALLOC_THROWS))
		return !bpf_map_update_elem(&alloc_calls, &key, &call, BPF_ANY);
	if (count_call(s, slot, tgid, &call.block)) {
		add(&s->unfollowed, 1);
		count_freed(slot, tgid, &call.block);
	}
	return false;
}

static __always_inline bool enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, slot = SO_MAX_SLOTS;
	const struct so_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct request r = {};
	struct so_alloc_slot *s;
	__u64 chance;

	if (!(cookie & SO_ALLOC_CALIBRATION)) {
		if (!process || !(process->flags & SO_PROCESS_ACTIVE))
			return false;
		slot = process->slot & (SO_MAX_SLOTS - 1);
	}
	s = &alloc_slots[slot];
	if (!s->on)
		return false;
	add(cookie & SO_ALLOC_STEPPED ? &s->stepped_hits : &s->hits, 1);
	if (s->until_ns && bpf_ktime_get_ns() > s->until_ns)
		return false;
	read_request(ctx, cookie, &r);
	if (r.block)
		take_back(s, slot, tgid, r.block);
	if (!r.bytes)
		return false;
	if (r.bytes >= SO_ALLOC_MAX_BYTES) {
		add(&s->strange, 1);
		return false;
	}
	chance = so_alloc_chance(r.bytes, s->shift & SO_ALLOC_MAX_SHIFT);
	if (bpf_get_prandom_u32() >= chance || !process)
		return false;
	if (!may_look(process)) {
		add(&s->hidden, 1);
		return false;
	}
	return choose(ctx, s, slot, tgid, cookie, &r, chance);
}

/* A block that was freed unseen, whose address it has. */
static __always_inline void follow(struct so_alloc_slot *s, __u32 slot, __u32 tgid, __u64 address,
				   const struct so_alloc_block *block)
{
	struct so_alloc_block_key key = { .address = address, .tgid = tgid };
	void *blocks = bpf_map_lookup_elem(&alloc_blocks, &slot);
	const struct so_alloc_block *old = blocks ? bpf_map_lookup_elem(blocks, &key) : NULL;

	if (!blocks)
		return;
	if (old) {
		struct so_alloc_block before = *old;

		count_freed(slot, tgid, &before);
		add(&s->replaced, 1);
	}
	if (!bpf_map_update_elem(blocks, &key, block, BPF_ANY))
		return;
	add(&s->left_out, 1);
	count_freed(slot, tgid, block);
}

static __always_inline void leave(struct pt_regs *ctx)
{
	struct call_key key = { .thread = bpf_get_current_pid_tgid(), .sp = ctx->rsp - 8 };
	const struct call *found = bpf_map_lookup_elem(&alloc_calls, &key);
	__u32 tgid = key.thread >> 32, slot;
	__u64 address = PT_REGS_RC(ctx);
	struct so_alloc_slot *s;
	struct call call;

	if (!found)
		return;
	call = *found;
	bpf_map_delete_elem(&alloc_calls, &key);
	slot = call.slot & (SO_MAX_SLOTS - 1);
	s = &alloc_slots[slot];
	if (call.place) {
		bool failed = (__u32)address;

		address = 0;
		if (!failed)
			bpf_probe_read_user(&address, sizeof(address), (void *)call.place);
	}
	if (!address) {
		add(&s->failed, 1);
		return;
	}
	if (count_call(s, slot, tgid, &call.block))
		follow(s, slot, tgid, address, &call.block);
}

extern bool bpf_session_is_return(void) __ksym __weak;

/* Entry and return in one (6.13): the return of those alone that were chosen. */
SEC("?kprobe/session")
int alloc_session(struct pt_regs *ctx)
{
	if (!bpf_session_is_return())
		return !enter(ctx, bpf_get_attach_cookie(ctx));
	leave(ctx);
	return 0;
}

SEC("?kprobe/enter")
int alloc_enter(struct pt_regs *ctx)
{
	enter(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("?kprobe/leave")
int alloc_leave(struct pt_regs *ctx)
{
	leave(ctx);
	return 0;
}
