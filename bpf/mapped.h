/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the current process has mapped at an address now, for who cannot take its lock: the tree of its mappings is read
 * as it stands. While another thread changes it, a lookup may find nothing or something else, never memory that is not
 * the kernel's to read (bpf_probe_read_kernel); the caller compares it with one expected value, and any other only costs more work.
 *
 * The tree is a maple tree since 6.1 (include/linux/maple_tree.h), and a red-black tree before.
 */
#ifndef STAKEOUT_BPF_MAPPED_H
#define STAKEOUT_BPF_MAPPED_H

#include "bpf/kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "stakeout/sampler_abi.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	unsigned int s_dev;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	struct inode *f_inode;
};

/* Since 6.8 a file of a layered file system that is mapped is one below it, and names the one that was asked for. */
struct backing_file {
	struct path user_path;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct rb_node {
	struct rb_node *rb_right, *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

/* Before 6.1. */
struct vm_area_struct___rb {
	struct rb_node vm_rb;
};

struct mm_struct___rb {
	struct rb_root mm_rb;
	__u64 vmacache_seqnum; /* moves when something is unmapped */
};

struct maple_tree {
	void *ma_root;
};

struct mm_struct___maple {
	struct maple_tree mm_mt;
};

/* Since 6.4, with CONFIG_PER_VMA_LOCK: moves when the lock of the mappings is let go after a change. */
struct mm_struct___lock_seq {
	int mm_lock_seq;
};

/* Since 6.13: moves when it is taken for a change, and again when it is let go, so that it is odd in between. */
struct mm_struct___lock_seqcount {
	struct {
		unsigned int sequence;
	} mm_lock_seq;
};

#pragma clang attribute pop

#define MAPPED_EXEC         0x4u       /* VM_EXEC */
#define MAPPED_IO           0x4000u    /* VM_IO: of the executable ones, the page of uprobes */
#define FILE_MODE_BACKING   0x2000000u /* FMODE_BACKING */
#define MAPPED_PAGE_SHIFT   12
#define MAPPED_MAX_RB_DEPTH 40
#define MAPPED_MAX_DEPTH    8

/*
 * A number that is another one since the process mapped, unmapped or protected anything (before 6.1: unmapped). 0: the
 * kernel has none, or a change is under way.
 */
static __always_inline __u64 mappings_generation(struct mm_struct *mm)
{
	struct mm_struct___lock_seqcount *counted = (void *)mm;
	struct mm_struct___lock_seq *numbered = (void *)mm;
	struct mm_struct___rb *old = (void *)mm;
	__u64 seq;

	if (bpf_core_field_exists(counted->mm_lock_seq.sequence)) {
		seq = BPF_CORE_READ(counted, mm_lock_seq.sequence);
		if (seq & 1)
			return 0;
	} else if (bpf_core_field_exists(numbered->mm_lock_seq)) {
		seq = (__u32)BPF_CORE_READ(numbered, mm_lock_seq);
	} else if (bpf_core_field_exists(old->vmacache_seqnum)) {
		seq = BPF_CORE_READ(old, vmacache_seqnum);
	} else {
		return 0;
	}
	return so_mix((__u64)mm, seq) | 1;
}

/*
 * Kinds of a maple tree's nodes. Behind the parent come the pivots, the slots, and where the last slot in use is noted.
 */
enum {
	MAPLE_LEAF_64 = 1,
	MAPLE_RANGE_64,
	MAPLE_ARANGE_64,
};
#define MAPLE_ROOT_NODE     2
#define MAPLE_PIVOTS_AT     8
#define MAPLE_PIVOTS        15
#define MAPLE_END_AT        248
#define MAPLE_ARANGE_PIVOTS 9
#define MAPLE_ARANGE_END_AT 240

/* The last slot in use. In a full node of the other kinds there is a slot in the place of the note. */
static __always_inline __u32 maple_end(__u64 node, __u32 kind)
{
	__u64 last = 0;
	__u8 end = MAPLE_PIVOTS;

	if (kind != MAPLE_ARANGE_64)
		bpf_probe_read_kernel(&last, sizeof(last), (void *)(node + MAPLE_PIVOTS_AT + 8 * (MAPLE_PIVOTS - 1)));
	if (!last)
		bpf_probe_read_kernel(&end, sizeof(end),
				      (void *)(node + (kind == MAPLE_ARANGE_64 ? MAPLE_ARANGE_END_AT : MAPLE_END_AT)));
	return end;
}

/*
 * The entry of the node's slot that holds the address: the first one whose pivot is not below it, or the last one in
 * use, which may have no pivot. A function of its own, so that it is verified once.
 */
__noinline __u64 maple_slot(__u64 node, __u32 kind, __u64 at)
{
	__u64 to_slots = 8 * (kind == MAPLE_ARANGE_64 ? MAPLE_ARANGE_PIVOTS : MAPLE_PIVOTS), end, value = 0;

	node &= ~255ull;
	end = maple_end(node, kind);
	node += MAPLE_PIVOTS_AT;
	/* One by one: stack is short. */
	for (__u32 i = 0; i < MAPLE_PIVOTS && i < end; i++, node += 8) {
		bpf_probe_read_kernel(&value, sizeof(value), (void *)node);
		if (value >= at)
			break;
	}
	bpf_probe_read_kernel(&value, sizeof(value), (void *)(node + to_slots));
	return value;
}

static __always_inline __u64 find_in_maple(struct mm_struct *mm, __u64 at)
{
	struct mm_struct___maple *m = (void *)mm;
	__u64 entry = (__u64)BPF_CORE_READ(m, mm_mt.ma_root);
	__u32 kind;

	/* Of a single mapping there is no node. */
	if ((entry & 3) != MAPLE_ROOT_NODE)
		return 0;
	for (int i = 0; i < MAPPED_MAX_DEPTH && entry; i++) {
		kind = entry >> 3 & 15;
		if (kind < MAPLE_LEAF_64 || kind > MAPLE_ARANGE_64)
			return 0;
		entry = maple_slot(entry, kind, at);
		if (kind == MAPLE_LEAF_64)
			return entry;
	}
	return 0;
}

/* The node that is next on the way to the address, or this one, with bit 0 set, where it is there; 0: nowhere. */
__noinline __u64 rb_next(__u64 node, __u64 at)
{
	struct vm_area_struct___rb *type = NULL;
	struct rb_node *this = (void *)node;
	struct vm_area_struct *area;

	/* It is verified where nobody calls it, too. */
	if (!bpf_core_field_exists(type->vm_rb))
		return 0;
	area = (void *)node - bpf_core_field_offset(type->vm_rb);
	if (at >= BPF_CORE_READ(area, vm_end))
		return (__u64)BPF_CORE_READ(this, rb_right);
	if (at < BPF_CORE_READ(area, vm_start))
		return (__u64)BPF_CORE_READ(this, rb_left);
	return node | 1;
}

static __always_inline __u64 find_in_rb(struct mm_struct *mm, __u64 at)
{
	struct mm_struct___rb *m = (void *)mm;
	struct vm_area_struct___rb *type = NULL;
	__u64 node = (__u64)BPF_CORE_READ(m, mm_rb.rb_node);

	for (int i = 0; i < MAPPED_MAX_RB_DEPTH; i++) {
		if (!node || node & 1)
			break;
		node = rb_next(node, at);
	}
	return node & 1 ? node - 1 - bpf_core_field_offset(type->vm_rb) : 0;
}

static __always_inline __u64 find_area(struct mm_struct *mm, __u64 at)
{
	struct mm_struct___maple *maple = (void *)mm;
	struct mm_struct___rb *rb = (void *)mm;

	if (bpf_core_field_exists(maple->mm_mt))
		return find_in_maple(mm, at);
	if (bpf_core_field_exists(rb->mm_rb))
		return find_in_rb(mm, at);
	return 0;
}

/* As /proc/PID/maps says it. */
static __always_inline struct inode *shown_inode(struct file *file)
{
	struct backing_file *backing = (void *)file;

	if (bpf_core_field_exists(backing->user_path) && BPF_CORE_READ(file, f_mode) & FILE_MODE_BACKING)
		return BPF_CORE_READ(backing, user_path.dentry, d_inode);
	return BPF_CORE_READ(file, f_inode);
}

/* so_mapping.id of what is mapped there, with SO_MAPPED_EXEC where it is executable; 0: nothing was found. */
__noinline __u64 mapped_id(__u64 at)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct vm_area_struct *area = mm ? (void *)find_area(mm, at) : NULL;
	__u64 start, flags, exec, base;
	struct inode *inode;
	struct file *file;

	if (!area)
		return 0;
	start = BPF_CORE_READ(area, vm_start);
	if (at < start || at >= BPF_CORE_READ(area, vm_end))
		return 0;
	flags = BPF_CORE_READ(area, vm_flags);
	exec = (flags & MAPPED_EXEC) && !(flags & MAPPED_IO) ? SO_MAPPED_EXEC : 0;
	file = BPF_CORE_READ(area, vm_file);
	if (!file)
		return SO_MAPPED_ANONYMOUS | exec;
	base = start - (BPF_CORE_READ(area, vm_pgoff) << MAPPED_PAGE_SHIFT);
	inode = shown_inode(file);
	return so_mapped_file(BPF_CORE_READ(inode, i_sb, s_dev), BPF_CORE_READ(inode, i_ino), base) | exec;
}

#endif
