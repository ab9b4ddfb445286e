// SPDX-License-Identifier: GPL-2.0-or-later
/* Duty cycles over targets whose every call is known: how often the truth is within what is told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/cuda_estimate.h"
#include "tests/unit/random_unit.h"

#define ON_MS      10
#define RECORDINGS 400

/* Calls in the millisecond `at`. */
typedef double target(unsigned at);

/* Steps of 7 ms, of which 2 have no call. */
static double steps(unsigned at)
{
	return at % 7 < 5 ? 20 : 0;
}

/* Some ms have none, by chance. */
static double chance(unsigned at)
{
	return unit() < 0.6 ? 30 : 2;
}

/* Ten times as many at the end as at the beginning. */
static double drift(unsigned at)
{
	return (double)at / 1000 + 1;
}

static double same(unsigned at)
{
	return 20;
}

/* One recording of `seconds`, at a duty of 1 in `factor` on average: the truth, and what is told. */
static double record(target *calls, unsigned seconds, unsigned factor, struct cuda_estimate *out)
{
	double rate = -1, missed = 0;
	unsigned at = (unsigned)(unit() * 1000);
	const unsigned end = at + seconds * 1000;

	*out = (struct cuda_estimate){ 0 };
	while (at < end) {
		unsigned off = (unsigned)(ON_MS * (factor - 1) * (0.5 + unit()));
		double seen = 0;

		for (unsigned i = 0; i < off; i++)
			missed += calls(at++);
		for (unsigned i = 0; i < ON_MS; i++)
			seen += calls(at++);
		cuda_estimate__add(out, seen, rate * ON_MS, 1 + (double)off / ON_MS, 0);
		rate = seen / ON_MS;
	}
	return missed;
}

/* The share of recordings in which the estimate is within twice its standard error of the truth. */
static double within(target *calls, unsigned seconds, unsigned factor, double *error)
{
	unsigned n = 0;

	*error = 0;
	for (unsigned i = 0; i < RECORDINGS; i++) {
		struct cuda_estimate e;
		double missed = record(calls, seconds, factor, &e);

		n += fabs(e.calls - missed) <= 2 * sqrt(e.variance);
		*error += 2 * sqrt(e.variance) / missed / RECORDINGS;
	}
	return (double)n / RECORDINGS;
}

static void the_truth_is_within(void **state)
{
	double error;

	assert_true(within(chance, 10, 20, &error) > 0.9);
	assert_true(error > 0.02 && error < 0.2);
	assert_true(within(steps, 10, 20, &error) > 0.9);
	assert_true(error < 0.2);
	/* That there are ten times as many at the end makes little of it: neighbours are compared. */
	within(drift, 10, 20, &error);
	assert_true(error < 0.02);
	/* No source of error is none. */
	within(same, 10, 20, &error);
	assert_true(error < 1e-9);
}

/* As record(), and so much of an off time after it: the share of recordings in which the truth of both is within. */
static double within_with_tail(target *calls, unsigned seconds, unsigned factor, unsigned tail, double *error)
{
	unsigned n = 0;

	*error = 0;
	for (unsigned i = 0; i < RECORDINGS; i++) {
		struct cuda_estimate e = { 0 };
		double missed = 0, rate = -1, squares = 0, seen = 0;
		unsigned at = (unsigned)(unit() * 1000), times = 0, off = 0;

		for (const unsigned end = at + seconds * 1000; at < end; times++) {
			off = (unsigned)(ON_MS * (factor - 1) * (0.5 + unit()));
			seen = 0;
			for (unsigned k = 0; k < off; k++)
				missed += calls(at++);
			for (unsigned k = 0; k < ON_MS; k++)
				seen += calls(at++);
			cuda_estimate__add(&e, seen, rate * ON_MS, 1 + (double)off / ON_MS, 0);
			squares += rate < 0 ? 0 : (seen - rate * ON_MS) * (seen - rate * ON_MS) / 2;
			rate = seen / ON_MS;
		}
		for (unsigned k = 0; k < tail; k++)
			missed += calls(at++);
		cuda_estimate__add_tail(&e, seen, squares / (times - 1), 1 + (double)off / ON_MS,
					(double)tail / ON_MS, 0);
		n += fabs(e.calls - missed) <= 2 * sqrt(e.variance);
		*error += 2 * sqrt(e.variance) / missed / RECORDINGS;
	}
	return (double)n / RECORDINGS;
}

static void the_time_after_the_last_one_is_in_it(void **state)
{
	double without, error;
	struct cuda_estimate e = { 0 };

	within(chance, 5, 20, &without);
	assert_true(within_with_tail(chance, 5, 20, 1000, &error) > 0.9);
	assert_true(error > 1.2 * without);
	assert_true(within_with_tail(steps, 5, 20, 300, &error) > 0.9);
	cuda_estimate__add_tail(&e, 30, 4, 6, 10, 0.1);
	assert_true(e.times == 0 && e.calls == 300 && e.variance == 840 && fabs(e.bias - 30) < 1e-9);
}

static void longer_recordings_are_nearer(void **state)
{
	double short_error, long_error;

	within(chance, 5, 20, &short_error);
	within(chance, 80, 20, &long_error);
	assert_true(short_error > 3 * long_error && short_error < 6 * long_error);
}

static void what_the_probes_took_may_be_told_wrong(void **state)
{
	struct cuda_estimate e = { 0 };

	/* 30 calls stand for 3000, or for 2970 ± 30 % more. */
	cuda_estimate__add(&e, 30, -1, 100, 0.3);
	assert_int_equal(e.times, 1);
	assert_true(fabs(e.calls - 2970) < 1e-9 && e.variance == 0);
	assert_true(fabs(e.bias - 2970 * 0.3) < 1e-9);
}

static void a_span_is_a_difference(void **state)
{
	struct cuda_estimate all = { 0 }, base, since;

	cuda_estimate__add(&all, 10, -1, 5, 0.1);
	base = all;
	cuda_estimate__add(&all, 12, 10, 6, 0.2);
	since = cuda_estimate__since(&all, &base);
	assert_int_equal(since.times, 1);
	assert_true(fabs(since.calls - 60) < 1e-9 && fabs(since.variance - 60) < 1e-9);
	assert_true(fabs(since.bias - 60 * 0.2) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_truth_is_within),
		cmocka_unit_test(the_time_after_the_last_one_is_in_it),
		cmocka_unit_test(longer_recordings_are_nearer),
		cmocka_unit_test(what_the_probes_took_may_be_told_wrong),
		cmocka_unit_test(a_span_is_a_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
