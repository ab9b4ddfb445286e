/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Log-linear histograms of times in nanoseconds, the same in bpf/, in the daemon and in the client.
 *
 * An octave is split into LATENCY_BUCKETS buckets of equal width, so a bucket is 1/32 of its lower bound wide at most,
 * and its middle differs from any value in it by 1.6 % or less. The first octave holds 0 … 31 ns, one bucket a
 * nanosecond; octave n > 0 holds 2^(n + 4) … 2^(n + 5) - 1.
 */
#ifndef STAKEOUT_LATENCY_H
#define STAKEOUT_LATENCY_H

#include <linux/types.h>

#define LATENCY_BUCKET_SHIFT 5
#define LATENCY_BUCKETS      (1u << LATENCY_BUCKET_SHIFT)
#define LATENCY_OCTAVES      36 /* up to 2^40 ns, 18 minutes; longer ones count in the last bucket */

static inline __attribute__((always_inline)) __u32 latency_log2(__u64 v)
{
	__u32 r = 0;

	/* Without __builtin_clzll, which BPF has no instruction for. */
	if (v >> 32)
		v >>= 32, r += 32;
	if (v >> 16)
		v >>= 16, r += 16;
	if (v >> 8)
		v >>= 8, r += 8;
	if (v >> 4)
		v >>= 4, r += 4;
	if (v >> 2)
		v >>= 2, r += 2;
	return r + (__u32)(v >> 1);
}

static inline __attribute__((always_inline)) __u32 latency_octave(__u64 ns)
{
	__u32 octave = ns < LATENCY_BUCKETS ? 0 : latency_log2(ns) - (LATENCY_BUCKET_SHIFT - 1);

	return octave < LATENCY_OCTAVES ? octave : LATENCY_OCTAVES - 1;
}

/* octave: latency_octave(ns) */
static inline __attribute__((always_inline)) __u32 latency_bucket(__u64 ns, __u32 octave)
{
	if (ns >> 40)
		return LATENCY_BUCKETS - 1;
	return (__u32)(ns >> (octave ? octave - 1 : 0)) & (LATENCY_BUCKETS - 1);
}

/* The bucket's lower bound, and its width: it holds lower … lower + width - 1. */
static inline __u64 latency_lower(__u32 octave, __u32 bucket)
{
	return octave ? (__u64)(LATENCY_BUCKETS + bucket) << (octave - 1) : bucket;
}

static inline __u64 latency_width(__u32 octave)
{
	return octave ? 1ull << (octave - 1) : 1;
}

/* Squares in units of 2^(2 × latency_square_shift(octave)) ns²: 2^29 of them fit 64 bits, within 2^-16 of the value. */
static inline __attribute__((always_inline)) __u32 latency_square_shift(__u32 octave)
{
	return octave > 13 ? octave - 13 : 0;
}

#endif
