// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory of GPUs that PyTorch's caching allocator gives out and takes back (stakeout/torch_abi.h): a probe at the
 * entry of the function that it reports each to, and one where it reports that there was none. Blocks and totals are
 * exact; stacks are taken as long as their budget lasts, and of one allocation in so many at random beyond it.
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

#include "bpf/memory/torch_stack.h"
#include "bpf/rights.h"

char LICENSE[] SEC("license") = "GPL";

struct so_torch_slot torch_slots[SO_MAX_SLOTS];
struct so_torch_site no_site;
struct so_torch_device no_device;

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

PER_SLOT(torch_blocks, SO_TORCH_BLOCKS, struct so_torch_block_key, struct so_torch_block);
PER_SLOT(torch_sites, SO_TORCH_SITES, struct so_torch_site_key, struct so_torch_site);
PER_SLOT(torch_devices, SO_TORCH_DEVICES, struct so_torch_device_key, struct so_torch_device);

/* One call. */
struct call {
	struct so_torch_slot *slot;
	__u32 slot_number, tgid, device;
	__u64 now_ns;
	__u64 since_ns; /* the device's: what is older is of the program that the process executed before */
};

static __always_inline void add(__u64 *to, __u64 n)
{
	__sync_fetch_and_add(to, n);
}

/* Of other allocators, and of threads that may not be looked into, nothing is taken. */
static __always_inline bool begin(struct call *c, __u64 device)
{
	const struct so_process *process;

	c->tgid = bpf_get_current_pid_tgid() >> 32;
	c->device = SO_TORCH_DEVICE(device);
	if (SO_TORCH_DEVICE_TYPE(c->device) != SO_TORCH_CUDA && SO_TORCH_DEVICE_TYPE(c->device) != SO_TORCH_HIP)
		return false;
	process = bpf_map_lookup_elem(&processes, &c->tgid);
	if (!process || !(process->flags & SO_PROCESS_ACTIVE))
		return false;
	c->slot_number = process->slot & (SO_MAX_SLOTS - 1);
	c->slot = &torch_slots[c->slot_number];
	if (!c->slot->on)
		return false;
	c->now_ns = bpf_ktime_get_ns();
	add(&c->slot->hits, 1);
	if (may_look(process))
		return true;
	add(&c->slot->hidden, 1);
	return false;
}

static __always_inline void end(const struct call *c)
{
	add(&c->slot->run_ns, bpf_ktime_get_ns() - c->now_ns);
}

static __always_inline struct so_torch_device *find_device(struct call *c)
{
	struct so_torch_device_key key = { .tgid = c->tgid, .device = c->device };
	struct so_torch_device *d;
	__u32 slot = c->slot_number;
	void *all = bpf_map_lookup_elem(&torch_devices, &slot);

	if (!all)
		return NULL;
	d = bpf_map_lookup_elem(all, &key);
	if (!d) {
		bpf_map_update_elem(all, &key, &no_device, BPF_NOEXIST);
		d = bpf_map_lookup_elem(all, &key);
	}
	if (!d) {
		add(&c->slot->full, 1);
		return NULL;
	}
	if (!d->since_ns)
		d->since_ns = c->now_ns;
	c->since_ns = d->since_ns;
	return d;
}

/* before: what was allocated until this call. */
static __always_inline void note_totals(const struct call *c, struct so_torch_device *d, __u64 before, __u64 allocated,
					__u64 reserved)
{
	if (d->epoch != c->slot->epoch) {
		d->low = before;
		d->epoch = c->slot->epoch;
	}
	d->allocated = allocated;
	d->reserved = reserved;
	if (allocated < d->low)
		d->low = allocated;
	if (before > d->peak_allocated)
		d->peak_allocated = before;
	if (allocated > d->peak_allocated)
		d->peak_allocated = allocated;
	if (reserved > d->peak_reserved)
		d->peak_reserved = reserved;
}

/* A race between CPUs may take one stack more or less. */
static __always_inline void turn_span(const struct call *c)
{
	struct so_torch_slot *s = c->slot;
	__u64 span = c->now_ns >> SO_TORCH_SPAN_SHIFT;

	if (s->span == span)
		return;
	s->span = span;
	s->span_ns = 0;
	s->span_refused = 0;
}

static __always_inline bool wants_stack(struct call *c, bool refused)
{
	struct so_torch_slot *s = c->slot;

	turn_span(c);
	if (refused && s->span_refused < SO_TORCH_SPAN_REFUSED) {
		s->span_refused++;
		return true;
	}
	if (!(bpf_get_prandom_u32() & s->mask))
		return true;
	add(&s->skipped, 1);
	return false;
}

static __always_inline void charge_stack(struct call *c, __u64 ns)
{
	struct so_torch_slot *s = c->slot;

	add(&s->stacks, 1);
	add(&s->stacks_ns, ns);
	add(&s->span_ns, ns);
	if (s->span_ns <= s->budget_ns || s->mask >= SO_TORCH_MAX_MASK)
		return;
	s->mask = s->mask * 2 + 1;
	s->span_ns = 0;
}

/* Of the program before, nothing is in use. */
static __always_inline struct so_torch_site *renew(const struct call *c, struct so_torch_site *site)
{
	if (site && site->since_ns < c->since_ns) {
		site->live = site->peak = site->live_then = 0;
		site->since_ns = c->since_ns;
	}
	return site;
}

static __always_inline struct so_torch_site *find_site(const struct call *c, __u64 stack, bool make)
{
	struct so_torch_site_key key = { .stack = stack, .tgid = c->tgid, .device = c->device };
	struct so_torch_site *site;
	__u32 slot = c->slot_number;
	void *all = bpf_map_lookup_elem(&torch_sites, &slot);

	if (!all)
		return NULL;
	site = bpf_map_lookup_elem(all, &key);
	if (site || !make)
		return renew(c, site);
	bpf_map_update_elem(all, &key, &no_site, BPF_NOEXIST);
	return renew(c, bpf_map_lookup_elem(all, &key));
}

/* Where the calling stack's figures are; NULL: it was not taken, or there is no room. */
static __always_inline struct so_torch_site *site_here(struct pt_regs *ctx, struct call *c, bool refused, __u64 *stack)
{
	struct so_torch_site *site;
	struct stack_buffer *b;
	__u64 begin_ns, hash;
	__u32 number = 0;

	if (!wants_stack(c, refused))
		return NULL;
	b = walk_take_buffer(&torch_buffers, BUFFERS_A_CPU, &number);
	if (!b) {
		add(&c->slot->lost, 1);
		return NULL;
	}
	begin_ns = bpf_ktime_get_ns();
	hash = walk_stack(ctx, b, number, c->tgid);
	site = hash ? find_site(c, hash, true) : NULL;
	if (site && !site->sent) {
		site->sent = send_stack(b, hash, c->tgid, c->slot_number, refused);
		if (!site->sent)
			add(&c->slot->lost, 1);
	}
	walk_release_buffer(b);
	charge_stack(c, bpf_ktime_get_ns() - begin_ns);
	if (site)
		*stack = hash;
	else
		add(&c->slot->lost, 1);
	return site;
}

/* An atomic addition's result is of no use before 5.12, so the peak may be that of a thread beside. */
static __always_inline void count_live(struct so_torch_site *site, __u64 bytes)
{
	add(&site->live, bytes);
	if (site->live > site->peak)
		site->peak = site->live;
}

/* What the block's stack has in use is less by it from now on. */
static __always_inline void forget_block(const struct call *c, struct so_torch_device *d,
					 const struct so_torch_block *block, bool freed)
{
	struct so_torch_site *site = block->stack ? find_site(c, block->stack, false) : &d->rest;

	add(&d->live, -block->bytes);
	if (!site)
		return;
	add(&site->live, -block->bytes);
	if (freed)
		add(&site->frees, 1);
}

static __always_inline void allocate(struct pt_regs *ctx, struct call *c, struct so_torch_device *d, void *blocks,
				     const struct so_torch_block_key *key, __u64 bytes)
{
	struct so_torch_block block = { .bytes = bytes, .when_ns = c->now_ns };
	struct so_torch_site *site = site_here(ctx, c, false, &block.stack) ?: &d->rest;
	const struct so_torch_block *old = bpf_map_lookup_elem(blocks, key);

	add(&d->allocations, 1);
	add(&site->allocations, 1);
	add(&site->bytes, bytes);
	if (old && old->when_ns >= c->since_ns) {
		struct so_torch_block before = *old;

		forget_block(c, d, &before, false);
		add(&d->replaced, 1);
	}
	if (bpf_map_update_elem(blocks, key, &block, BPF_ANY)) {
		add(&d->left_out, 1);
		add(&d->left_out_bytes, bytes);
		return;
	}
	add(&d->live, bytes);
	count_live(site, bytes);
}

static __always_inline void take_back(struct call *c, struct so_torch_device *d, void *blocks,
				      const struct so_torch_block_key *key, __u64 bytes)
{
	const struct so_torch_block *old = bpf_map_lookup_elem(blocks, key);
	struct so_torch_block block;

	add(&d->frees, 1);
	if (!old || old->when_ns < c->since_ns) {
		add(&d->unseen_frees, 1);
		add(&d->unseen_bytes, bytes);
		return;
	}
	block = *old;
	/* Of two threads that give the same block back one finds it. */
	if (!bpf_map_delete_elem(blocks, key))
		forget_block(c, d, &block, true);
}

/* reportMemoryUsageToProfiler(ptr, alloc_size, total_allocated, total_reserved, device) */
SEC("uprobe")
int on_memory(struct pt_regs *ctx)
{
	__s64 size = (__s64)PT_REGS_PARM2(ctx);
	__u64 bytes = size < 0 ? -(__u64)size : (__u64)size, allocated = PT_REGS_PARM3(ctx), before;
	__u64 reserved = PT_REGS_PARM4(ctx);
	struct so_torch_block_key key = { .address = PT_REGS_PARM1(ctx) };
	struct so_torch_device *d;
	struct call c = {};
	void *blocks;

	if (!begin(&c, PT_REGS_PARM5(ctx)))
		return 0;
	if (!bytes || bytes > SO_TORCH_MAX_BYTES || allocated > SO_TORCH_MAX_BYTES || reserved > SO_TORCH_MAX_BYTES) {
		add(&c.slot->strange, 1);
		return 0;
	}
	d = find_device(&c);
	blocks = bpf_map_lookup_elem(&torch_blocks, &c.slot_number);
	if (!d || !blocks)
		return 0;
	key.tgid = c.tgid;
	key.device = c.device;
	before = size < 0 ? allocated + bytes : allocated > bytes ? allocated - bytes : 0;
	note_totals(&c, d, before, allocated, reserved);
	if (size > 0)
		allocate(ctx, &c, d, blocks, &key, bytes);
	else
		take_back(&c, d, blocks, &key, bytes);
	end(&c);
	return 0;
}

struct bpf_map;

static long note_live(struct bpf_map *map, const struct so_torch_site_key *key, struct so_torch_site *site,
		      struct call *c)
{
	if (key->tgid == c->tgid && key->device == c->device)
		site->live_then = site->since_ns < c->since_ns ? 0 : site->live;
	return 0;
}

/* What each stack has in use now: soon after, the program will have given much of it back. */
static __always_inline void note_all_live(struct call *c, struct so_torch_device *d)
{
	__u32 slot = c->slot_number;
	void *all = bpf_map_lookup_elem(&torch_sites, &slot);

	d->rest.live_then = d->rest.live;
	if (all)
		bpf_for_each_map_elem(all, note_live, c, 0);
}

/* reportOutOfMemoryToProfiler(alloc_size, total_allocated, total_reserved, device) */
SEC("uprobe")
int on_refused(struct pt_regs *ctx)
{
	__u64 bytes = PT_REGS_PARM1(ctx), allocated = PT_REGS_PARM2(ctx), reserved = PT_REGS_PARM3(ctx), stack;
	struct so_torch_device *d;
	struct so_torch_site *site;
	struct call c = {};

	if (!begin(&c, PT_REGS_PARM4(ctx)))
		return 0;
	if (bytes > SO_TORCH_MAX_BYTES || allocated > SO_TORCH_MAX_BYTES || reserved > SO_TORCH_MAX_BYTES) {
		add(&c.slot->strange, 1);
		return 0;
	}
	d = find_device(&c);
	if (!d)
		return 0;
	note_totals(&c, d, allocated, allocated, reserved);
	add(&d->refused, 1);
	__sync_fetch_and_add(&c.slot->refused, 1);
	turn_span(&c);
	if (c.slot->span_refused < SO_TORCH_SPAN_REFUSED)
		note_all_live(&c, d);
	d->refused_bytes = bytes;
	d->refused_allocated = allocated;
	d->refused_reserved = reserved;
	d->refused_ns = c.now_ns;
	site = site_here(ctx, &c, true, &stack) ?: &d->rest;
	add(&site->refused, 1);
	add(&site->refused_bytes, bytes);
	end(&c);
	return 0;
}
