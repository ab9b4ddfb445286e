// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_stats.h"

#include <math.h>

uint64_t cuda_stats__sum(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) || sum > INT64_MAX ? INT64_MAX : sum;
}

void cuda_stats__add(struct cuda_stats *stats, const struct cuda_call *call)
{
	if (!call->calls)
		return;
	if (!stats->calls || call->min_ns < stats->min_ns)
		stats->min_ns = call->min_ns;
	if (call->max_ns > stats->max_ns)
		stats->max_ns = call->max_ns;
	stats->calls = cuda_stats__sum(stats->calls, call->calls);
	stats->errors = cuda_stats__sum(stats->errors, call->errors);
	stats->total_ns = cuda_stats__sum(stats->total_ns, call->total_ns);
	stats->bytes = cuda_stats__sum(stats->bytes, call->bytes);
	stats->blocks = cuda_stats__sum(stats->blocks, call->blocks);
	stats->threads = cuda_stats__sum(stats->threads, call->threads);
	stats->squares_ns2 += call->squares_ns2;
	for (size_t i = 0; i < call->n_buckets; i++) {
		uint64_t *bucket = &stats->buckets[call->buckets[i].index];

		*bucket = cuda_stats__sum(*bucket, call->buckets[i].count);
		stats->in_buckets = cuda_stats__sum(stats->in_buckets, call->buckets[i].count);
	}
}

double cuda_stats__average(const struct cuda_stats *stats)
{
	return stats->calls ? (double)stats->total_ns / (double)stats->calls : NAN;
}

/* The value that the calls of a bucket are counted with. */
static double middle(const struct cuda_stats *stats, uint32_t index)
{
	uint32_t octave = index / LATENCY_BUCKETS;
	double low = (double)latency_lower(octave, index % LATENCY_BUCKETS);
	double high = low + (double)latency_width(octave) - 1;

	low = fmax(low, (double)stats->min_ns);
	high = fmin(high, (double)stats->max_ns);
	/* min … max may lie beside the bucket: in the last one, or if the rows contradict themselves. */
	if (low > high)
		return fmin(fmax(low, (double)stats->min_ns), (double)stats->max_ns);
	return (low + high) / 2;
}

/* The call of this rank, from 0. */
static double at_rank(const struct cuda_stats *stats, double rank)
{
	double below = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < CUDA_BUCKETS; i++) {
		if (!stats->buckets[i])
			continue;
		last = i;
		below += (double)stats->buckets[i];
		if (rank < below)
			break;
	}
	return middle(stats, last);
}

double cuda_stats__quantile(const struct cuda_stats *stats, double q)
{
	double rank = q * ((double)stats->in_buckets - 1), whole = floor(rank), low, high;

	if (!stats->in_buckets)
		return NAN;
	low = at_rank(stats, whole);
	high = rank > whole ? at_rank(stats, whole + 1) : low;
	return low + (rank - whole) * (high - low);
}

double cuda_stats__stddev(const struct cuda_stats *stats)
{
	double n = (double)stats->calls, average = cuda_stats__average(stats), variance;

	if (!stats->calls || (!(stats->squares_ns2 > 0) && stats->total_ns))
		return NAN;
	if (stats->calls == 1)
		return 0;
	variance = (stats->squares_ns2 - n * average * average) / (n - 1);
	/* Squares are rounded down, and a rounding can make the difference negative. */
	return variance > 0 ? sqrt(variance) : 0;
}

uint64_t cuda_stats__from(const struct cuda_stats *stats, uint64_t ns, double *total_ns)
{
	uint64_t calls = 0;
	double total = 0;

	for (uint32_t i = 0; i < CUDA_BUCKETS; i++) {
		if (!stats->buckets[i] || latency_lower(i / LATENCY_BUCKETS, i % LATENCY_BUCKETS) < ns)
			continue;
		calls = cuda_stats__sum(calls, stats->buckets[i]);
		total += (double)stats->buckets[i] * middle(stats, i);
	}
	if (total_ns)
		*total_ns = total;
	return calls;
}

void cuda_stats__figures(const struct cuda_stats *stats, struct cuda_figures *out)
{
	*out = (struct cuda_figures){
		.calls = stats->calls,
		.errors = stats->errors,
		.total_ns = stats->total_ns,
		.min_ns = stats->min_ns,
		.max_ns = stats->max_ns,
		.bytes = stats->bytes,
		.blocks = stats->blocks,
		.threads = stats->threads,
		.average_ns = cuda_stats__average(stats),
		.median_ns = cuda_stats__quantile(stats, 0.5),
		.p99_ns = cuda_stats__quantile(stats, 0.99),
		.stddev_ns = cuda_stats__stddev(stats),
	};
}
