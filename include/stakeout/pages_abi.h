/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/memory/pages.bpf.c and the daemon share. A page is chosen by a hash of its process and its address, so a page
 * that is given back and touched again is chosen again: of the chosen ones the daemon sees every first touch, and knows
 * which touch the page that is resident at the end is of.
 */
#ifndef STAKEOUT_PAGES_ABI_H
#define STAKEOUT_PAGES_ABI_H

#include "stakeout/abi.h"

#define SO_PAGE_SHIFT     12
#define SO_HUGE_ORDER     9 /* of 2 MiB: the most that one fault makes resident (x86-64) */
#define SO_PAGE_ORDER_MAX SO_HUGE_ORDER

/* Of 2^32 pages so many are chosen: those whose hash is below. At most one in four: one in 16 KiB. */
#define SO_PAGE_MAX_THRESHOLD (1u << 30)
/* One in 64 GiB. */
#define SO_PAGE_MIN_THRESHOLD (1u << 8)

/* Stacks of a target in a span of 2^27 ns (179 a second), and touches of chosen pages. What is more halves its threshold. */
#define SO_PAGE_SPAN_SHIFT   27
#define SO_PAGE_SPAN_STACKS  24
#define SO_PAGE_SPAN_TOUCHES 512

/*
 * Chosen pages that were touched last, by so_page_place(): memory that is given back and touched again and again would
 * take all the stacks there are. From the second touch on one in 2, then 4, up to 64 has its stack taken, at random, and
 * the record is worth so many.
 */
#define SO_PAGE_SEEN_SHIFT 15
#define SO_PAGE_SEEN       (1u << SO_PAGE_SEEN_SHIFT)
#define SO_PAGE_MOST_TIMES 64
struct so_page_seen {
	__u64 page; /* the first one where a fault made several resident */
	__u32 tgid;
	__u32 touches;
	__u64 when_ns; /* of the latest */
};

/* By slot, in memory that the daemon has mapped. */
struct so_page_slot {
	__u32 threshold; /* 0: the slot's target is not watched */
	__u32 lowest;    /* that it was since the daemon last set this */
	__u64 span;      /* of 2^SO_PAGE_SPAN_SHIFT ns */
	__u32 span_stacks, span_touches;
	__u64 stacks;
	__u64 lost;   /* chosen touches that did not fit into the ring, or had no buffer */
	__u64 hidden; /* those of threads that the target's user may not look into */
	__u64 run_ns; /* what taking stacks took */
};

/* The fault that a thread is in, by the low bits of its number. */
#define SO_PAGE_FAULTS (1u << 16)
struct so_page_fault {
	__u32 tid, pad;
	__u64 address;
};

/* A record of the ring of stacks, SO_RECORD_PAGE: behind the record of its stack. */
struct so_page_record {
	__u32 type;
	__u32 slot;
	__u32 tgid, tid;
	__u32 order;     /* 2^order pages became resident, of which some are chosen */
	__u32 threshold; /* by which they are */
	__u64 address;   /* of the first one */
	__u64 when_ns;   /* CLOCK_MONOTONIC */
	__u64 stack;     /* its hash */
	__u32 times;     /* touches that it is worth */
	__u32 pad;
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
