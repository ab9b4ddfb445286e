// SPDX-License-Identifier: GPL-2.0-or-later
/* What is computed of histograms and sums, against the same of the single times. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/cuda_stats.h"

#define TIMES 2001

/* A row made of single times, as the kernel side counts them. */
struct made {
	struct cuda_call call;
	struct cuda_bucket buckets[CUDA_BUCKETS];
};

static void make(struct made *made, const uint64_t *times, size_t n)
{
	static uint64_t counts[CUDA_BUCKETS];

	memset(made, 0, sizeof(*made));
	memset(counts, 0, sizeof(counts));
	made->call.min_ns = UINT64_MAX;
	for (size_t i = 0; i < n; i++) {
		uint32_t octave = latency_octave(times[i]);

		counts[octave * LATENCY_BUCKETS + latency_bucket(times[i], octave)]++;
		made->call.calls++;
		made->call.total_ns += times[i];
		made->call.squares_ns2 += (double)times[i] * (double)times[i];
		if (times[i] < made->call.min_ns)
			made->call.min_ns = times[i];
		if (times[i] > made->call.max_ns)
			made->call.max_ns = times[i];
	}
	for (uint32_t i = 0; i < CUDA_BUCKETS; i++)
		if (counts[i])
			made->buckets[made->call.n_buckets++] = (struct cuda_bucket){ i, counts[i] };
	made->call.buckets = made->buckets;
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Of the sorted times, with linear interpolation between ranks. */
static double exact_quantile(const uint64_t *sorted, size_t n, double q)
{
	double rank = q * (double)(n - 1);
	size_t at = (size_t)floor(rank), next = at + 1 < n ? at + 1 : at;

	return (double)sorted[at] + (rank - (double)at) * ((double)sorted[next] - (double)sorted[at]);
}

static void check_quantiles(uint64_t *times, size_t n)
{
	static const double shares[] = { 0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1 };
	static struct made made;
	static struct cuda_stats stats;

	make(&made, times, n);
	memset(&stats, 0, sizeof(stats));
	cuda_stats__add(&stats, &made.call);
	qsort(times, n, sizeof(*times), compare_times);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		double exact = exact_quantile(times, n, shares[i]),
		       found = cuda_stats__quantile(&stats, shares[i]);

		if (fabs(found - exact) > 0.016 * exact)
			fail_msg("quantile %g of %zu: %g instead of %g", shares[i], n, found, exact);
		assert_true(found >= (double)times[0] && found <= (double)times[n - 1]);
	}
}

static void quantiles_are_within_1_6_percent(void **state)
{
	static uint64_t times[TIMES];

	srand48(7);
	for (int round = 0; round < 200; round++) {
		size_t n = 1 + (size_t)(drand48() * (TIMES - 1));
		double decades = 12 * drand48();

		/* Over up to 12 decades, all below the last bucket. */
		for (size_t i = 0; i < n; i++)
			times[i] = (uint64_t)pow(10, decades * drand48());
		check_quantiles(times, n);
	}
	/* All in one bucket, at its edges. */
	for (size_t i = 0; i < 100; i++)
		times[i] = i < 99 ? 1048576 : 1081343;
	check_quantiles(times, 100);
}

static void quantiles_lie_between_the_extremes(void **state)
{
	uint64_t times[] = { 5000, 5000, 5000 };
	static struct made made;
	struct cuda_stats *stats = calloc(1, sizeof(*stats));

	make(&made, times, 3);
	cuda_stats__add(stats, &made.call);
	assert_true(cuda_stats__quantile(stats, 0.5) == 5000);
	assert_true(cuda_stats__quantile(stats, 0.99) == 5000);
	/* Extremes that contradict the buckets win. */
	stats->min_ns = 6000;
	stats->max_ns = 7000;
	assert_true(cuda_stats__quantile(stats, 0.5) == 6000);
	stats->min_ns = 1000;
	stats->max_ns = 2000;
	assert_true(cuda_stats__quantile(stats, 0.5) == 2000);
	free(stats);
}

/* Longer than the histogram reaches. */
static void an_hour_is_in_the_last_bucket(void **state)
{
	uint64_t times[] = { 3600000000000, 3600000000000 };
	static struct made made;
	struct cuda_stats *stats = calloc(1, sizeof(*stats));

	make(&made, times, 2);
	assert_int_equal(made.buckets[0].index, CUDA_BUCKETS - 1);
	cuda_stats__add(stats, &made.call);
	assert_true(cuda_stats__quantile(stats, 0.5) == 3600000000000.0);
	free(stats);
}

static void rows_add_up(void **state)
{
	uint64_t first[] = { 100, 5000, 70 }, second[] = { 3, 900000 }, both[] = { 100, 5000, 70, 3, 900000 };
	static struct made a, b, all;
	struct cuda_stats *sum = calloc(1, sizeof(*sum)), *whole = calloc(1, sizeof(*whole));

	make(&a, first, 3);
	make(&b, second, 2);
	make(&all, both, 5);
	cuda_stats__add(sum, &a.call);
	cuda_stats__add(sum, &b.call);
	cuda_stats__add(whole, &all.call);
	assert_memory_equal(sum, whole, sizeof(*sum));
	assert_int_equal(sum->calls, 5);
	assert_int_equal(sum->total_ns, 905173);
	assert_int_equal(sum->min_ns, 3);
	assert_int_equal(sum->max_ns, 900000);
	assert_true(cuda_stats__quantile(sum, 0.5) == 100.5); /* bucket 100 … 101 */
	assert_true(cuda_stats__average(sum) == 905173 / 5.0);
	free(sum);
	free(whole);
}

static void the_deviation_is_the_samples(void **state)
{
	/* Mean 5000; squares of the distances 4, 0, 4 times 10^6; / 2 */
	uint64_t times[] = { 3000, 5000, 7000 };
	static struct made made;
	struct cuda_stats *stats = calloc(1, sizeof(*stats));

	make(&made, times, 3);
	cuda_stats__add(stats, &made.call);
	assert_true(fabs(cuda_stats__stddev(stats) - 2000) < 1e-6);
	/* Rounded down by 2^-16: no NAN from a negative variance. */
	make(&made, (uint64_t[]){ 5000, 5000 }, 2);
	memset(stats, 0, sizeof(*stats));
	made.call.squares_ns2 *= 1 - 0x1p-16;
	cuda_stats__add(stats, &made.call);
	assert_true(cuda_stats__stddev(stats) == 0);
	make(&made, times, 1);
	memset(stats, 0, sizeof(*stats));
	cuda_stats__add(stats, &made.call);
	assert_true(cuda_stats__stddev(stats) == 0);
	free(stats);
}

static void nothing_is_not_known(void **state)
{
	struct cuda_stats *stats = calloc(1, sizeof(*stats));
	struct cuda_call none = { .calls = 0, .max_ns = 5 },
			 bare = { .calls = 2, .total_ns = 10, .min_ns = 4, .max_ns = 6 };
	struct cuda_figures figures;

	cuda_stats__add(stats, &none);
	cuda_stats__figures(stats, &figures);
	assert_int_equal(figures.calls, 0);
	assert_int_equal(figures.max_ns, 0);
	assert_true(isnan(figures.average_ns) && isnan(figures.median_ns) && isnan(figures.p99_ns) &&
		    isnan(figures.stddev_ns));
	/* Neither histogram nor squares. */
	cuda_stats__add(stats, &bare);
	cuda_stats__figures(stats, &figures);
	assert_true(figures.average_ns == 5);
	assert_true(isnan(figures.median_ns) && isnan(figures.stddev_ns));
	free(stats);
}

static void sums_stop_at_the_largest_integer(void **state)
{
	struct cuda_bucket bucket = { CUDA_BUCKETS - 1, INT64_MAX };
	struct cuda_call huge = { .calls = INT64_MAX,
				  .total_ns = INT64_MAX,
				  .bytes = INT64_MAX,
				  .min_ns = 1,
				  .max_ns = INT64_MAX,
				  .squares_ns2 = 1e308,
				  .buckets = &bucket,
				  .n_buckets = 1 };
	struct cuda_stats *stats = calloc(1, sizeof(*stats));

	for (int i = 0; i < 3; i++)
		cuda_stats__add(stats, &huge);
	assert_int_equal(stats->calls, INT64_MAX);
	assert_int_equal(stats->total_ns, INT64_MAX);
	assert_int_equal(stats->in_buckets, INT64_MAX);
	assert_false(isnan(cuda_stats__quantile(stats, 0.5)));
	assert_int_equal(cuda_stats__sum(INT64_MAX, 1), INT64_MAX);
	assert_int_equal(cuda_stats__sum(UINT64_MAX, UINT64_MAX), INT64_MAX);
	assert_int_equal(cuda_stats__sum(2, 3), 5);
	free(stats);
}

static void calls_from_a_time_on(void **state)
{
	uint64_t times[] = { 99000, 100352, 150000, 2500000 };
	static struct made made;
	struct cuda_stats *stats = calloc(1, sizeof(*stats));
	double total_ns = 0;

	make(&made, times, 4);
	cuda_stats__add(stats, &made.call);
	assert_int_equal(cuda_stats__from(stats, 100000, &total_ns), 3);
	assert_true(fabs(total_ns - 2750352) < 0.016 * 2750352);
	assert_int_equal(cuda_stats__from(stats, 3000000, NULL), 0);
	free(stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_within_1_6_percent),
		cmocka_unit_test(quantiles_lie_between_the_extremes),
		cmocka_unit_test(an_hour_is_in_the_last_bucket),
		cmocka_unit_test(rows_add_up),
		cmocka_unit_test(the_deviation_is_the_samples),
		cmocka_unit_test(nothing_is_not_known),
		cmocka_unit_test(sums_stop_at_the_largest_integer),
		cmocka_unit_test(calls_from_a_time_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
