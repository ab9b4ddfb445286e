// SPDX-License-Identifier: GPL-2.0-or-later
/* Duty cycles over targets whose every call is known: how often the truth is within what is told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/cuda/cuda_estimate.h"
#include "tests/unit/random_unit.h"

#define ON_MS      10
#define MS         1e6
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

/* A time on of the kind launch, and of all kinds. */
static struct cuda_estimate_seen launches(double calls, double factor, double error)
{
	struct cuda_estimate_seen seen = {
		.kinds = 1u << SO_CUDA_LAUNCH, .ns = ON_MS * MS, .factor = factor, .error = error
	};

	seen.calls[SO_CUDA_LAUNCH] = seen.calls[CUDA_ESTIMATE_ALL] = calls;
	return seen;
}

static bool are_near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fabs(b);
}

/*
 * One recording of `seconds`, at a duty of 1 in `factor` on average, and of `tail` ms after the last time on: the truth, and what is told.
 */
static double record(target *calls, unsigned seconds, unsigned factor, unsigned tail, struct cuda_estimate *out)
{
	struct cuda_estimates estimates = { 0 };
	struct cuda_estimate_rates rates = { 0 };
	struct cuda_estimate_seen last = { 0 };
	unsigned at = (unsigned)(unit() * 1000);
	const unsigned end = at + seconds * 1000;
	double missed = 0;

	while (at < end) {
		unsigned off = (unsigned)(ON_MS * (factor - 1) * (0.5 + unit()));
		double seen = 0;

		for (unsigned i = 0; i < off; i++)
			missed += calls(at++);
		for (unsigned i = 0; i < ON_MS; i++)
			seen += calls(at++);
		last = launches(seen, 1 + (double)off / ON_MS, 0);
		cuda_estimates__add(&estimates, &rates, &last);
		cuda_estimate_rates__add(&rates, &last, true);
	}
	for (unsigned i = 0; i < tail; i++)
		missed += calls(at++);
	if (tail)
		cuda_estimates__add_off(&estimates, &rates, &last, (double)tail / ON_MS);
	*out = estimates.of[CUDA_ESTIMATE_ALL];
	assert_memory_equal(out, &estimates.of[SO_CUDA_LAUNCH], sizeof(*out));
	return missed;
}

/* The share of recordings in which the estimate is within twice its standard error of the truth. */
static double within(target *calls, unsigned seconds, unsigned factor, unsigned tail, double *error)
{
	unsigned n = 0;

	*error = 0;
	for (unsigned i = 0; i < RECORDINGS; i++) {
		struct cuda_estimate e;
		double missed = record(calls, seconds, factor, tail, &e);

		n += fabs(e.calls - missed) <= 2 * sqrt(e.variance);
		*error += 2 * sqrt(e.variance) / missed / RECORDINGS;
	}
	return (double)n / RECORDINGS;
}

static void the_truth_is_within(void **state)
{
	double error;

	assert_true(within(chance, 10, 20, 0, &error) > 0.9);
	assert_true(error > 0.02 && error < 0.2);
	assert_true(within(steps, 10, 20, 0, &error) > 0.9);
	assert_true(error < 0.2);
	/* That there are ten times as many at the end makes little of it: neighbours are compared. */
	within(drift, 10, 20, 0, &error);
	assert_true(error < 0.02);
	/* No source of error is none. */
	within(same, 10, 20, 0, &error);
	assert_true(error < 1e-9);
}

static void the_time_after_the_last_one_is_in_it(void **state)
{
	double without, error;

	within(chance, 5, 20, 0, &without);
	assert_true(within(chance, 5, 20, 1000, &error) > 0.9);
	assert_true(error > 1.2 * without);
	assert_true(within(steps, 5, 20, 300, &error) > 0.9);
}

/* 30 calls stand for 6 times as many, and for 10 times as many after them. Differences of 4 and 2, of which the last weighs a fifth. */
static void what_a_tail_adds(void **state)
{
	struct cuda_estimate_seen seen = launches(28, 1, 0);
	struct cuda_estimate_rates rates = { 0 };
	struct cuda_estimates e = { 0 };
	const struct cuda_estimate *all = &e.of[CUDA_ESTIMATE_ALL];

	cuda_estimate_rates__add(&rates, &seen, true);
	seen = launches(32, 1, 0);
	cuda_estimate_rates__add(&rates, &seen, true);
	assert_true(are_near(rates.of[SO_CUDA_LAUNCH].variance * ON_MS * MS, 8));
	seen = launches(30, 6, 0.1);
	cuda_estimate_rates__add(&rates, &seen, true);
	assert_true(are_near(rates.of[SO_CUDA_LAUNCH].variance * ON_MS * MS, 0.8 * 8 + 0.2 * 2));
	cuda_estimates__add_off(&e, &rates, &seen, 10);
	assert_int_equal(all->times, 0);
	assert_true(are_near(all->calls, 300) && are_near(all->bias, 30));
	assert_true(are_near(all->variance, (15 * 15 - 5 * 5 + 10) * 6.8));
	assert_memory_equal(all, &e.of[SO_CUDA_LAUNCH], sizeof(*all));
	assert_true(e.of[SO_CUDA_COPY].calls == 0);
	assert_true(all->offs == 1 && e.of[SO_CUDA_COPY].offs == 0);
	/* Of copies, which came and went then, the last time on knows nothing: not all are known. */
	seen.kinds |= 1u << SO_CUDA_COPY;
	cuda_estimates__add_off(&e, &rates, &seen, 1);
	assert_true(e.of[SO_CUDA_COPY].offs == 1 && cuda_estimate__is_any(&e.of[SO_CUDA_COPY]));
}

/* Of a time on half as long half as many are expected. */
static void rates_are_of_a_time_as_long(void **state)
{
	struct cuda_estimate_seen seen = launches(30, 1, 0);
	struct cuda_estimate_rates rates = { 0 };
	struct cuda_estimates e = { 0 };

	cuda_estimate_rates__add(&rates, &seen, true);
	seen = launches(18, 4, 0);
	seen.ns /= 2;
	cuda_estimates__add(&e, &rates, &seen);
	assert_true(are_near(e.of[SO_CUDA_LAUNCH].variance, 4 * 3 * 3 * 3 / 2.0));
	cuda_estimate_rates__add(&rates, &seen, true);
	assert_true(are_near(rates.of[SO_CUDA_LAUNCH].variance * seen.ns, 3 * 3 / 2.0));
	/* What is no neighbour is compared with nothing. */
	cuda_estimate_rates__add(&rates, &seen, false);
	e = (struct cuda_estimates){ 0 };
	seen = launches(300, 4, 0);
	cuda_estimates__add(&e, &rates, &seen);
	assert_true(e.of[SO_CUDA_LAUNCH].variance == 0 && e.of[SO_CUDA_LAUNCH].times == 1);
}

/* Copies come and go with launches, but for the second time on, of which they count all. */
static void kinds_are_told_apart(void **state)
{
	struct cuda_estimate_seen seen = launches(30, 2, 0.1);
	struct cuda_estimate_rates rates = { 0 };
	struct cuda_estimates e = { 0 };

	seen.kinds |= 1u << SO_CUDA_COPY;
	seen.calls[SO_CUDA_COPY] = 10;
	seen.calls[CUDA_ESTIMATE_ALL] = 40;
	cuda_estimates__add(&e, &rates, &seen);
	cuda_estimate_rates__add(&rates, &seen, true);
	seen = launches(36, 2, 0.1);
	cuda_estimates__add(&e, &rates, &seen);
	cuda_estimate_rates__add(&rates, &seen, true);
	assert_int_equal(e.of[SO_CUDA_LAUNCH].times, 2);
	assert_int_equal(e.of[SO_CUDA_COPY].times, 1);
	assert_int_equal(e.of[CUDA_ESTIMATE_ALL].times, 2);
	assert_true(are_near(e.of[SO_CUDA_LAUNCH].calls, 66) && are_near(e.of[SO_CUDA_LAUNCH].variance, 36));
	assert_true(are_near(e.of[SO_CUDA_COPY].calls, 10) && e.of[SO_CUDA_COPY].variance == 0);
	assert_true(are_near(e.of[SO_CUDA_COPY].bias, 1));
	assert_true(e.of[SO_CUDA_SYNC].times == 0 && e.of[SO_CUDA_SYNC].calls == 0);
	assert_true(!rates.of[SO_CUDA_COPY].has_calls && rates.of[SO_CUDA_COPY].variance == 0);
}

/* Of kinds that no time on stood for nothing is said. */
static void as_json(void **state)
{
	struct cuda_estimate_seen seen = launches(30, 2, 0);
	struct cuda_estimates e = { 0 };
	json_t *json = cuda_estimates__json(&e);

	assert_true(json_is_null(json));
	cuda_estimates__add(&e, &(struct cuda_estimate_rates){ 0 }, &seen);
	json = cuda_estimates__json(&e);
	assert_true(json_real_value(json_object_get(json, "calls")) == 30);
	json_t *kinds = json_object_get(json, "by_kind");
	assert_int_equal(json_object_size(kinds), 1);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(kinds, "launch"), "times")), 1);
	json_decref(json);
}

static void longer_recordings_are_nearer(void **state)
{
	double short_error, long_error;

	within(chance, 5, 20, 0, &short_error);
	within(chance, 80, 20, 0, &long_error);
	assert_true(short_error > 3 * long_error && short_error < 6 * long_error);
}

static void what_the_probes_took_may_be_told_wrong(void **state)
{
	struct cuda_estimate_seen seen = launches(30, 100, 0.3);
	struct cuda_estimates e = { 0 };
	const struct cuda_estimate *all = &e.of[CUDA_ESTIMATE_ALL];

	/* 30 calls stand for 3000, or for 2970 ± 30 % more. */
	cuda_estimates__add(&e, &(struct cuda_estimate_rates){ 0 }, &seen);
	assert_int_equal(all->times, 1);
	assert_true(are_near(all->calls, 2970) && all->variance == 0 && are_near(all->bias, 2970 * 0.3));
}

static void a_span_is_a_difference(void **state)
{
	struct cuda_estimate_seen seen = launches(10, 5, 0.1);
	struct cuda_estimate_rates rates = { 0 };
	struct cuda_estimates all = { 0 }, base, since;

	cuda_estimates__add(&all, &rates, &seen);
	cuda_estimate_rates__add(&rates, &seen, true);
	base = all;
	seen = launches(12, 6, 0.2);
	cuda_estimates__add(&all, &rates, &seen);
	since = cuda_estimates__since(&all, &base);
	for (unsigned i = 0; i < 2; i++) {
		const struct cuda_estimate *of = &since.of[i ? SO_CUDA_LAUNCH : CUDA_ESTIMATE_ALL];

		assert_int_equal(of->times, 1);
		assert_true(are_near(of->calls, 60) && are_near(of->variance, 60) && are_near(of->bias, 12));
	}
	assert_true(cuda_estimates__are_any(&since));
	since = cuda_estimates__since(&all, &all);
	assert_false(cuda_estimates__are_any(&since));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_truth_is_within),
		cmocka_unit_test(the_time_after_the_last_one_is_in_it),
		cmocka_unit_test(what_a_tail_adds),
		cmocka_unit_test(rates_are_of_a_time_as_long),
		cmocka_unit_test(kinds_are_told_apart),
		cmocka_unit_test(as_json),
		cmocka_unit_test(longer_recordings_are_nearer),
		cmocka_unit_test(what_the_probes_took_may_be_told_wrong),
		cmocka_unit_test(a_span_is_a_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
