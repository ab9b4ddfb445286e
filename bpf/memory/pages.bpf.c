// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The growth of resident memory: of the pages that a process touches for the first time, some are chosen by a hash of
 * their address (stakeout/pages_abi.h), and the stack that touched them is sent.
 *
 * The kernel says at a fault's begin which address it is about, and when it takes pages for it how many, and for what:
 * pages that are movable and zeroed are anonymous memory. So what is read alone (the page of zeros), the page cache and
 * shared memory are none of it. Both tracepoints fire in all processes of the machine: what is not chosen costs a few
 * instructions.
 */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/registers.h"
#include "bpf/rights.h"
#include "bpf/walk.h"
#include "stakeout/pages_abi.h"

char LICENSE[] SEC("license") = "GPL";

/* include/linux/gfp_types.h; the same bits from 5.10 to 6.18. */
#define GFP_MOVABLE    0x08u
#define GFP_ZERO       0x100u
#define GFP_NOMEMALLOC 0x80000u /* of pages of more than one for anonymous memory, which the fault zeroes itself */

/* Whether the kernel has bpf_task_pt_regs (5.15). */
const volatile bool have_task_pt_regs = true;
const volatile __u64 salt = 0;
/* Python frames wake the daemon, at most this often: names are to be read before the code objects' memory is reused. */
const volatile __u64 python_wakeup_ns = 20000000;

struct so_page_slot page_slots[SO_MAX_SLOTS];
struct so_page_fault page_faults[SO_PAGE_FAULTS];
struct so_page_seen page_seen[SO_PAGE_SEEN];
/* The highest thresholds of all slots. */
__u32 highest = 0;
__u32 highest_random = 0;
__u64 last_wakeup_ns = 0;

/* The kernel lets a program of this kind run once on a CPU. */
struct buffer {
	struct walk_buffer walk;
	struct so_page_record page;
	struct pt_regs regs;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct buffer);
} page_buffers SEC(".maps");

/* A fault's registers are where those of a system call are: what a system call touches has the call's stack. */
static __always_inline enum so_truncation read_registers(struct buffer *b)
{
	struct task_struct *task = current_task();
	struct pt_regs *saved;

	if (have_task_pt_regs)
		saved = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	else
		saved = (struct pt_regs *)(BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES) - 1;
	if (bpf_probe_read_kernel(&b->regs, sizeof(b->regs), saved))
		return SO_TRUNC_NO_USER;
	if ((b->regs.cs & CODE_SEGMENT_RPL) != CODE_SEGMENT_RPL)
		return SO_TRUNC_NO_USER;
	copy_regs(b->walk.u.regs, &b->regs);
	b->walk.u.pc = b->regs.rip;
	if (probed_task(task))
		leave_probe_page(task, probed_task(task), &b->walk.u.pc, &b->walk.u.regs[SO_REG_RSP]);
	return b->regs.cs == CODE_SEGMENT_USER64 ? SO_TRUNC_NONE : SO_TRUNC_COMPAT;
}

/* The stack into the buffer; returns its hash. */
static __always_inline __u64 take_stack(struct buffer *b, const struct so_process *process, __u32 tgid)
{
	struct so_unwind *u = &b->walk.u;

	uw_clear(u);
	u->cause = read_registers(b);
	if (u->cause == SO_TRUNC_NONE) {
		uw_start(u, u->pc, process->mappings, process->run);
		u->cpu = bpf_get_smp_processor_id();
		walk_native(&b->walk, process);
	}
	return walk_python(&b->walk, process, uw_stack_hash(u, tgid), tgid);
}

/* Two CPUs may both find that it is time; one wake-up more does no harm. */
static __always_inline __u64 wakeup_of(const struct buffer *b, __u64 now_ns)
{
	if (!b->walk.w.n || now_ns - last_wakeup_ns < python_wakeup_ns)
		return BPF_RB_NO_WAKEUP;
	last_wakeup_ns = now_ns;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline bool send(struct buffer *b)
{
	struct so_page_record *page = &b->page;

	if (!walk_send(&b->walk, page->stack, page->tgid, BPF_RB_NO_WAKEUP))
		return false;
	return !bpf_ringbuf_output(&stacks, page, sizeof(*page), wakeup_of(b, page->when_ns));
}

/* Whether the threshold is halved, as there were more than `most` in this span. */
static __always_inline bool is_too_often(__u32 *count, __u32 most, __u32 *threshold)
{
	__sync_fetch_and_add(count, 1); /* its result is of no use before 5.12 */
	if (*count <= most || *threshold <= SO_PAGE_MIN_THRESHOLD)
		return false;
	*count = 0;
	*threshold /= 2;
	return true;
}

/* A race between CPUs may halve a threshold once more or once less: each record says by what it was chosen. */
static __always_inline void limit(struct so_page_slot *slot, bool touch, bool stack, bool random, __u64 now_ns)
{
	__u64 span = now_ns >> SO_PAGE_SPAN_SHIFT;

	if (slot->span != span) {
		slot->span = span;
		slot->span_stacks = 0;
		slot->span_touches = 0;
		slot->span_random = 0;
	}
	if (touch && is_too_often(&slot->span_touches, SO_PAGE_SPAN_TOUCHES, &slot->threshold))
		slot->span_stacks = 0;
	if (stack && is_too_often(&slot->span_stacks, SO_PAGE_SPAN_STACKS, &slot->threshold))
		slot->span_touches = 0;
	if (random)
		is_too_often(&slot->span_random, SO_PAGE_SPAN_RANDOM, &slot->random);
	if (slot->threshold < slot->lowest)
		slot->lowest = slot->threshold;
}

/* Notes the touch of a chosen page. Whether its stack is to be taken. */
static __always_inline bool see(__u32 tgid, __u64 page, __u64 now_ns)
{
	struct so_page_seen *seen = &page_seen[so_page_place(tgid, page) & (SO_PAGE_SEEN - 1)];
	__u32 one_in = 1;

	if (seen->page != page || seen->tgid != tgid) {
		seen->page = page;
		seen->tgid = tgid;
		seen->touches = 0;
	}
	seen->when_ns = now_ns;
#pragma unroll
	for (int i = 0; i < 6; i++)
		one_in = one_in * 2 <= seen->touches ? one_in * 2 : one_in;
	seen->touches++;
	return !(bpf_get_prandom_u32() & (one_in - 1));
}

struct search {
	__u64 page;
	__u32 tgid, threshold;
	bool found;
};

static long is_chosen(__u32 i, void *ctx)
{
	struct search *s = ctx;

	s->found = so_page_hash(salt, s->tgid, s->page + i) < s->threshold;
	return s->found;
}

/* Whether one of the pages from s->page on is chosen. */
static __always_inline bool search_pages(struct search *s, __u32 order)
{
	if (order > SO_PAGE_ORDER_MAX)
		return false;
	bpf_loop(1u << order, is_chosen, s, 0);
	return s->found;
}

/* By which of the two ways the touch is chosen; into b->page. Whether its stack is to be taken. */
static __always_inline bool choose(struct buffer *b, struct so_page_slot *slot, __u32 random)
{
	struct so_page_record *page = &b->page;
	struct search search = { .tgid = page->tgid, .threshold = slot->threshold };
	bool stack = false;

	search.page = page->address >> SO_PAGE_SHIFT;
	page->random = (__u64)slot->random << (page->order & 15);
	if (page->random > 1ull << 32)
		page->random = 1ull << 32;
	if (random >= page->random)
		page->random = 0;
	if (search_pages(&search, page->order)) {
		page->threshold = search.threshold;
		stack = see(page->tgid, search.page, page->when_ns);
	}
	limit(slot, search.found, stack, page->random, page->when_ns);
	__sync_fetch_and_add(&slot->stacks, stack);
	__sync_fetch_and_add(&slot->randoms, page->random ? 1 : 0);
	return stack || page->random;
}

static __noinline int take_page(__u32 tgid, __u32 order, __u64 address, __u32 random)
{
	const struct so_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct so_page_slot *slot;
	__u32 zero = 0;
	struct buffer *b = bpf_map_lookup_elem(&page_buffers, &zero);

	if (!b || !process || !(process->flags & SO_PROCESS_ACTIVE) || order > SO_PAGE_ORDER_MAX)
		return 0;
	slot = &page_slots[process->slot & (SO_MAX_SLOTS - 1)];
	if (!slot->threshold)
		return 0;
	b->page = (struct so_page_record){ .type = SO_RECORD_PAGE,
					   .slot = process->slot,
					   .tgid = tgid,
					   .tid = (__u32)bpf_get_current_pid_tgid(),
					   .order = order,
					   .address = address & ~((1ull << (SO_PAGE_SHIFT + order)) - 1),
					   .when_ns = bpf_ktime_get_ns() };
	if (!choose(b, slot, random))
		return 0;
	if (!may_look(process)) {
		__sync_fetch_and_add(&slot->hidden, 1);
		return 0;
	}
	b->page.stack = take_stack(b, process, tgid);
	bpf_get_current_comm(b->page.comm, sizeof(b->page.comm));
	if (!send(b))
		__sync_fetch_and_add(&slot->lost, 1);
	__sync_fetch_and_add(&slot->run_ns, bpf_ktime_get_ns() - b->page.when_ns);
	return 0;
}

/* mm_account_fault() in mm/memory.c counts each fault at its end, also those of get_user_pages(). */
static __always_inline __u32 ended_faults(void)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task_btf();

	return (__u32)(task->min_flt + task->maj_flt);
}

static __always_inline void note_fault(__u64 address)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct so_page_fault *fault = &page_faults[tid & (SO_PAGE_FAULTS - 1)];

	fault->tid = tid;
	fault->faults = ended_faults();
	fault->address = address;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_user_fault, unsigned long address)
{
	note_fault(address);
	return 0;
}

/* As in read(2) into memory that was never touched. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_kernel_fault, unsigned long address)
{
	if (!(address >> 63))
		note_fault(address);
	return 0;
}

/* page is NULL where there was none to be had. */
SEC("tp_btf/mm_page_alloc")
int BPF_PROG(on_page, void *page, unsigned int order, unsigned int gfp)
{
	struct so_page_fault *fault;
	__u32 random;
	__u64 id;

	if (!(gfp & GFP_MOVABLE) || !(gfp & (order ? GFP_NOMEMALLOC : GFP_ZERO)) || !page)
		return 0;
	id = bpf_get_current_pid_tgid();
	fault = &page_faults[(__u32)id & (SO_PAGE_FAULTS - 1)];
	/* Pages that a call fills ahead (MAP_POPULATE) have no fault: nothing says where they are. */
	if (fault->tid != (__u32)id || fault->faults != ended_faults())
		return 0;
	random = bpf_get_prandom_u32();
	if (!order && random >= highest_random &&
	    so_page_hash(salt, id >> 32, fault->address >> SO_PAGE_SHIFT) >= highest)
		return 0;
	return take_page(id >> 32, order, fault->address, random);
}
