/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/memory/pages.bpf.c and the daemon share. When pages are touched for the first time, stacks are taken by two
 * choices, each with its threshold out of 2^32:
 *
 *   at random   How much each stack touches. A touch of so many pages is chosen with a probability in proportion.
 *   by page     What is in use. A page is chosen by a hash of its process and its address, so one that is given back
 *               and touched again is chosen again: of these pages every touch is seen, and the page that is there at
 *               the end is known to be the latest touch's.
 */
#ifndef STAKEOUT_PAGES_ABI_H
#define STAKEOUT_PAGES_ABI_H

#include "stakeout/abi.h"

#define SO_PAGE_SHIFT     12
#define SO_HUGE_ORDER     9 /* of 2 MiB: the most that one fault makes resident (x86-64) */
#define SO_PAGE_ORDER_MAX SO_HUGE_ORDER

/* At most one page in four: one in 16 KiB. At least one in 64 GiB. */
#define SO_PAGE_MAX_THRESHOLD (1u << 30)
#define SO_PAGE_MIN_THRESHOLD (1u << 8)

/*
 * In a span of 2^27 ns: stacks of a target that are taken by page (179 a second), at random (60 a second), and touches
 * of chosen pages. What is more halves the threshold.
 */
#define SO_PAGE_SPAN_SHIFT   27
#define SO_PAGE_SPAN_STACKS  24
#define SO_PAGE_SPAN_RANDOM  8
#define SO_PAGE_SPAN_TOUCHES 512

/*
 * Chosen pages that were touched last, by so_page_place(). Memory that is given back and touched again and again would
 * take all the stacks there are: from the second touch on one in 2, then 4, up to 64 has its stack taken, at random.
 */
#define SO_PAGE_SEEN_SHIFT 15
#define SO_PAGE_SEEN       (1u << SO_PAGE_SEEN_SHIFT)
struct so_page_seen {
	__u64 page; /* the first one where a fault made several resident */
	__u32 tgid;
	__u32 touches;
	__u64 when_ns; /* of the latest */
};

/* By slot, in memory that the daemon has mapped. */
struct so_page_slot {
	__u32 threshold; /* by page; 0: the slot's target is not watched */
	__u32 lowest;    /* that it was since the daemon last set this */
	__u32 random;    /* at random */
	__u32 span_stacks, span_touches, span_random;
	__u64 span;            /* of 2^SO_PAGE_SPAN_SHIFT ns */
	__u64 stacks, randoms; /* by page, and at random; one may be both */
	__u64 lost;            /* those that did not fit into the ring */
	__u64 hidden;          /* those of threads that the target's user may not look into */
	__u64 run_ns;          /* what taking stacks took */
};

/* The latest fault of a thread, by the low bits of its number. It is in it until its count of faults is another. */
#define SO_PAGE_FAULTS (1u << 16)
struct so_page_fault {
	__u32 tid;
	__u32 faults; /* that had ended when this one began, modulo 2^32 */
	__u64 address;
};

/* A record of the ring of stacks, SO_RECORD_PAGE: behind the record of its stack. */
struct so_page_record {
	__u32 type;
	__u32 slot;
	__u32 tgid, tid;
	__u32 order;     /* 2^order pages became resident */
	__u32 threshold; /* by which some of them were chosen; 0: none was */
	__u64 random;    /* the same of the touch, of 2^32 at most; 0: it was not */
	__u64 address;   /* of the first page */
	__u64 when_ns;   /* CLOCK_MONOTONIC */
	__u64 stack;     /* its hash */
	char comm[16];
};

/* page: address >> SO_PAGE_SHIFT. Two rounds, so that pages at equal distances are not chosen together. */
static inline __attribute__((always_inline)) __u32 so_page_hash(__u64 salt, __u32 tgid, __u64 page)
{
	__u64 h = (salt ^ page ^ (__u64)tgid << 36) * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
	return (__u32)(h >> 32);
}

static inline __attribute__((always_inline)) __u32 so_page_place(__u32 tgid, __u64 page)
{
	return (__u32)((page ^ (__u64)tgid << 36) * 0x9e3779b97f4a7c15ull >> (64 - SO_PAGE_SEEN_SHIFT));
}

#endif
