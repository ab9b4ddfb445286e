/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/memory/alloc.bpf.c and the daemon share: calls of allocators that were chosen at random by their bytes, by
 * the stack that made them, and which of their blocks are in use.
 *
 * A call that asks for S bytes is chosen with the probability 1 − e^(−S/R), as if one byte in R, on average, were marked
 * and a call chosen for any mark. It then counts for S over that probability.
 */
#ifndef STAKEOUT_ALLOC_ABI_H
#define STAKEOUT_ALLOC_ABI_H

#include "stakeout/abi.h"

/* R is this, times 2^shift. */
#define SO_ALLOC_MEAN_SHIFT  19 /* 512 KiB */
#define SO_ALLOC_MAX_SHIFT   7
#define SO_ALLOC_MEAN(shift) (1ull << (SO_ALLOC_MEAN_SHIFT + (shift)))

/* Nobody asks for more: it is no size. */
#define SO_ALLOC_MAX_BYTES (1ull << 44)

/* Whose function it is: X(enumerator, word). */
#define SO_ALLOC_KINDS(X)        \
	X(MALLOC, "malloc")      \
	X(JEMALLOC, "jemalloc")  \
	X(TCMALLOC, "tcmalloc")  \
	X(MIMALLOC, "mimalloc")  \
	X(PY_OBJECT, "PyObject") \
	X(PY_MEMORY, "PyMem")

enum so_alloc_kind {
#define X(name, word) SO_ALLOC_##name,
	SO_ALLOC_KINDS(X)
#undef X
		SO_ALLOC_N_KINDS,
};

/* Where a function has its arguments. */
enum so_alloc_shape {
	SO_ALLOC_SIZE,     /* (bytes, …) */
	SO_ALLOC_ARRAY,    /* (n, bytes of each) */
	SO_ALLOC_RESIZE,   /* (block, bytes, …) */
	SO_ALLOC_ALIGNED,  /* (alignment, bytes) */
	SO_ALLOC_TO_PLACE, /* (where to put the block, alignment, bytes) */
	SO_ALLOC_FREE,     /* (block, …) */
};

/* A probe's cookie. */
#define SO_ALLOC_COOKIE(kind, shape)  ((__u64)(shape) | (__u64)(kind) << 8)
#define SO_ALLOC_COOKIE_SHAPE(cookie) ((__u32)(cookie)&0xff)
#define SO_ALLOC_COOKIE_KIND(cookie)  ((__u32)((cookie) >> 8) & 0xff)
/* resize of no block, and alignments of this or less, are left to malloc, which the function jumps to: */
#define SO_ALLOC_BY_MALLOC (1ull << 16)
#define SO_ALLOC_ALIGNMENT 16
/* CPython hands on what is larger to malloc (SMALL_REQUEST_THRESHOLD of Objects/obmalloc.c). */
#define SO_ALLOC_SMALL       (1ull << 17)
#define SO_ALLOC_SMALL_BYTES 512
#define SO_ALLOC_STEPPED     (1ull << 18) /* its instruction is single-stepped */
#define SO_ALLOC_CALIBRATION (1ull << 19) /* of the daemon itself, of slot SO_MAX_SLOTS */
/*
 * It may throw an exception, which cannot be unwound through a return that the kernel has taken: only the entry is
 * probed, and the block is not followed.
 */
#define SO_ALLOC_THROWS (1ull << 20)

/* In 1/2^32; 2^32: always. shift: as above. Exactly what the weight is made of, so its own error does no harm. */
static inline __attribute__((always_inline)) __u64 so_alloc_chance(__u64 bytes, __u32 shift)
{
	__u64 x, x2, x3, rest;
	__u32 halved = 0;

	if (bytes >> (SO_ALLOC_MEAN_SHIFT + 5 + shift))
		return 1ull << 32;
	x = bytes << (32 - SO_ALLOC_MEAN_SHIFT) >> shift;
	/* Below 1/8, where four terms of the series are enough. */
	for (int i = 0; i < 8; i++) {
		if (x > 1ull << 29) {
			x >>= 1;
			halved++;
		}
	}
	x2 = x * x >> 32;
	x3 = x2 * x >> 32;
	rest = (1ull << 32) - (x - x2 / 2 + x3 / 6 - (x3 * x >> 32) / 24);
	for (__u32 i = 0; i < 8; i++) {
		if (i < halved)
			rest = rest * rest >> 32;
	}
	rest = (1ull << 32) - rest;
	return rest ? rest : 1;
}

/* Of one target. */
#define SO_ALLOC_BLOCKS 65536 /* that were chosen and are in use */
#define SO_ALLOC_SITES  8192
#define SO_ALLOC_AGES   32

struct so_alloc_block_key {
	__u64 address;
	__u32 tgid, pad;
};

/*
 * What was seen in windows is apart from what was seen while there were none: it stands for what was not seen between
 * them as well, and by how much is known afterwards.
 */
enum so_alloc_seen {
	SO_ALLOC_ALL_THE_TIME,
	SO_ALLOC_IN_WINDOWS,
	SO_ALLOC_SEEN,
};

#define SO_ALLOC_CALLS 256 /* calls are in such parts, as a chosen one may stand for one and a half */

/* Weighted by the chance that it was chosen with. */
struct so_alloc_block {
	__u64 bytes, calls;
	__u64 stack;
	__u64 when_ns;
	__u32 kind;
	__u32 seen; /* enum so_alloc_seen */
};

struct so_alloc_site_key {
	__u64 stack;
	__u32 tgid, kind;
};

struct so_alloc_sums {
	__u64 bytes, calls;
	__u64 freed_bytes, freed_calls; /* of these */
};

/* Since the target is watched so. */
struct so_alloc_site {
	struct so_alloc_sums sums[SO_ALLOC_SEEN]; /* weighted */
	__u64 chosen;                             /* calls, not weighted */
	__u64 ages[SO_ALLOC_AGES]; /* freed bytes by age: from 2^i x 1024 ns on; the first one has the younger ones */
	__u32 sent, pad;           /* its stack is in the ring */
};

#define SO_ALLOC_AGE_SHIFT 10

/* By slot, in memory that the daemon has mapped. */
struct so_alloc_slot {
	__u32 on;
	__u32 shift; /* of the mean */
	__u32 seen;  /* enum so_alloc_seen */
	__u32 pad;
	__u64 until_ns; /* calls later are not counted; 0: all are */
	__u64 hits, stepped_hits;
	__u64 bytes;      /* weighted */
	__u64 stacks_ns;  /* what taking stacks took */
	__u64 chosen;     /* calls */
	__u64 frees;      /* of blocks that were chosen */
	__u64 lost;       /* chosen calls without a stack: there was no buffer, no room in the ring, among the sites */
	__u64 unfollowed; /* chosen calls of functions that may throw: they count as freed at once */
	__u64 left_out;   /* chosen blocks that there was no room to follow: they count as freed at once */
	__u64 replaced;   /* chosen blocks whose address was given out again: they were freed unseen */
	__u64 failed;     /* chosen calls that returned no block */
	__u64 hidden;     /* calls of threads that the target's user may not look into */
	__u64 strange;    /* calls with no sizes */
};

#endif
