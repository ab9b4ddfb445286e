/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of several rows taken together: sums, extremes, and what the histogram tells. Sums stop at INT64_MAX instead of
 * wrapping around, so they fit a JSON integer whatever the rows hold.
 */
#ifndef STAKEOUT_CUDA_STATS_H
#define STAKEOUT_CUDA_STATS_H

#include <stdint.h>

#include "cuda/cuda_report.h"

/* All zero is the sum of no rows. */
struct cuda_stats {
	uint64_t calls, errors, total_ns, bytes, blocks, threads;
	uint64_t min_ns, max_ns;
	double squares_ns2;
	uint64_t in_buckets;
	uint64_t buckets[CUDA_BUCKETS];
};

/* The figures of a table's row. NAN: not known. */
struct cuda_figures {
	uint64_t calls, errors, total_ns, min_ns, max_ns, bytes, blocks, threads;
	double average_ns, median_ns, p99_ns, stddev_ns;
};

/* a + b, at most INT64_MAX. */
uint64_t cuda_stats__sum(uint64_t a, uint64_t b);
void cuda_stats__add(struct cuda_stats *stats, const struct cuda_call *call);
/* total_ns / calls; NAN without calls. */
double cuda_stats__average(const struct cuda_stats *stats);
/*
 * The latency below which a share q (0 … 1) of the calls lies: between the calls of rank floor(q (n - 1)) and the next
 * one, linearly. Each of the two is known by its bucket; the middle of the bucket's part within min … max stands for
 * it, so the result differs from that of the exact times by 1.6 % or less (latency.h), and never lies outside min …
 * max. Calls longer than the last bucket begins (18 minutes) are in it, whatever they took. NAN: the histogram is
 * empty.
 */
double cuda_stats__quantile(const struct cuda_stats *stats, double q);
/*
 * Of the sample, with n - 1; 0 for one call, as Nsight Systems has it. Sums of squares are kept to 2^-16 of each
 * square, so what is below 0.4 % of the average is not told from 0. NAN without calls or squares.
 */
double cuda_stats__stddev(const struct cuda_stats *stats);
/* Calls in buckets that begin at `ns` or above, and (may be NULL) their time by the buckets' middles. */
uint64_t cuda_stats__from(const struct cuda_stats *stats, uint64_t ns, double *total_ns);
void cuda_stats__figures(const struct cuda_stats *stats, struct cuda_figures *out);

#endif
