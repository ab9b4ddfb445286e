// SPDX-License-Identifier: GPL-2.0-or-later
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/cuda/cuda_kinds.h"

#define SECOND      1000000000ull
#define KIND(kind)  (1u << SO_CUDA_##kind)
#define COUNT(k, n) [SO_CUDA_##k] = (n)

static void test_most_of_the_calls_are_chosen(void **state)
{
	const struct cuda_kind_calls calls = { .calls = { COUNT(LAUNCH, 800), COUNT(EVENT, 120),
							  COUNT(COPY, 50), COUNT(SYNC, 30) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, INFINITY);
	/* 920 of 1000; 800 would have left more than a tenth. */
	assert_int_equal(kinds.cycled, KIND(LAUNCH) | KIND(EVENT));
	assert_true(kinds.elapsed_s == 0);
}

/* What may stay is bounded by its cost, too: so many calls a second. */
static void test_so_many_may_stay(void **state)
{
	const struct cuda_kind_calls calls = { .calls = { COUNT(LAUNCH, 9500), COUNT(COPY, 300),
							  COUNT(SYNC, 200) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 500);
	assert_int_equal(kinds.cycled, KIND(LAUNCH));
	/* All the time for what stays, a tenth of it for the others. */
	const struct cuda_kind_calls later = { .calls = { COUNT(LAUNCH, 1900), COUNT(COPY, 600),
							  COUNT(SYNC, 400) } };
	cuda_kinds__add(&kinds, &later, 2 * SECOND, SECOND / 5);
	assert_false(cuda_kinds__are_outgrown(&kinds, 500));
	/* A little more is no reason to choose anew. */
	assert_false(cuda_kinds__are_outgrown(&kinds, 400));
	assert_true(cuda_kinds__are_outgrown(&kinds, 300));
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(LAUNCH) | KIND(COPY));
	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 0);
	assert_int_equal(kinds.cycled, KIND(LAUNCH) | KIND(COPY) | KIND(SYNC));
}

/* Of calls that take long twice as many may stay, and they are the last to be switched. */
static void test_waits_count_half(void **state)
{
	const struct cuda_kind_calls calls = {
		.calls = { COUNT(LAUNCH, 9000), COUNT(COPY, 300), COUNT(SYNC, 300) },
		.ns = { COUNT(COPY, 300 * 2000), COUNT(SYNC, 300 * 3000000ull) }
	};
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 450);
	assert_int_equal(kinds.cycled, KIND(LAUNCH));
	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	assert_false(cuda_kinds__are_outgrown(&kinds, 301));
	assert_true(cuda_kinds__are_outgrown(&kinds, 290));
	cuda_kinds__choose(&kinds, 290);
	assert_int_equal(kinds.cycled, KIND(LAUNCH) | KIND(COPY));
	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 149);
	assert_int_equal(kinds.cycled, KIND(LAUNCH) | KIND(COPY) | KIND(SYNC));
}

/* A model is uploaded when a job begins, and such copies are rare from then on: they stay again. */
static void test_a_burst_is_over(void **state)
{
	const struct cuda_kind_calls upload = { .calls = { COUNT(LAUNCH, 2000), COUNT(BLOCKING_COPY, 2000),
							   COUNT(SYNC, 30) } };
	/* In a time on of a twentieth. */
	const struct cuda_kind_calls later = { .calls = { COUNT(LAUNCH, 1000), COUNT(BLOCKING_COPY, 1),
							  COUNT(SYNC, 60) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &upload, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(LAUNCH) | KIND(BLOCKING_COPY));
	cuda_kinds__add(&kinds, &later, 2 * SECOND, SECOND / 10);
	/* 40 a second with the waits. Of less than half as many again nothing is done: they would soon go again. */
	assert_false(cuda_kinds__are_outgrown(&kinds, 55));
	assert_true(cuda_kinds__are_outgrown(&kinds, 300));
	/* So short a time tells nothing of so few. */
	kinds.on_s = 0.02;
	kinds.calls[SO_CUDA_LAUNCH] = 200;
	kinds.calls[SO_CUDA_BLOCKING_COPY] = 0;
	assert_false(cuda_kinds__are_outgrown(&kinds, 300));
	/* Nor that there are none: they may come in bursts that were all missed. */
	kinds.on_s = 0.2;
	assert_false(cuda_kinds__are_outgrown(&kinds, 300));
	kinds.on_s = 0.3;
	assert_true(cuda_kinds__are_outgrown(&kinds, 300));
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(LAUNCH));
}

/* Launches in bursts that the times on have missed, and waits that always count: these are not most of the calls. */
static void test_bursts_that_were_missed(void **state)
{
	const struct cuda_kind_calls bursts = { .calls = { COUNT(LAUNCH, 10000), COUNT(SYNC, 10) } };
	const struct cuda_kind_calls waits = { .calls = { COUNT(SYNC, 100) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &bursts, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(LAUNCH));
	cuda_kinds__add(&kinds, &waits, 2 * SECOND, SECOND / 5);
	cuda_kinds__choose(&kinds, 300);
	assert_true(kinds.cycled & KIND(LAUNCH));
	/* Seldom is not never. */
	kinds = (struct cuda_kinds){ .cycled = KIND(LAUNCH) };
	kinds.calls[SO_CUDA_LAUNCH] = 1;
	cuda_kinds__add(&kinds, &waits, 2 * SECOND, SECOND / 5);
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(SYNC));
}

/* If some are only right together, they are chosen together, and nothing is gained by another choice. */
static void test_kinds_that_go_together(void **state)
{
	const struct cuda_kind_calls calls = { .calls = { COUNT(COPY, 5000), COUNT(BLOCKING_COPY, 5),
							  COUNT(SYNC, 5) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(COPY));
	kinds.together = KIND(COPY) | KIND(BLOCKING_COPY);
	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	assert_true(cuda_kinds__are_outgrown(&kinds, 300));
	cuda_kinds__choose(&kinds, 300);
	assert_int_equal(kinds.cycled, KIND(COPY) | KIND(BLOCKING_COPY));
	cuda_kinds__add(&kinds, &calls, 4 * SECOND, SECOND);
	assert_false(cuda_kinds__are_outgrown(&kinds, 300));
}

static void test_one_kind_alone(void **state)
{
	const struct cuda_kind_calls calls = { .calls = { COUNT(SYNC, 5) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &calls, SECOND, SECOND);
	cuda_kinds__choose(&kinds, INFINITY);
	assert_int_equal(kinds.cycled, KIND(SYNC));
}

static void test_nothing_known(void **state)
{
	const struct cuda_kind_calls none = { 0 };
	const struct cuda_kind_calls some = { .calls = { COUNT(LAUNCH, 5) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &none, SECOND, SECOND);
	cuda_kinds__choose(&kinds, INFINITY);
	assert_int_equal(kinds.cycled, CUDA_KINDS_ALL);
	cuda_kinds__add(&kinds, &none, 5 * SECOND, SECOND);
	assert_false(cuda_kinds__are_outgrown(&kinds, INFINITY));
	/* Once there is something to choose by, a choice is made. */
	cuda_kinds__add(&kinds, &some, SECOND, SECOND / 10);
	assert_true(cuda_kinds__are_outgrown(&kinds, INFINITY));
	cuda_kinds__choose(&kinds, INFINITY);
	assert_int_equal(kinds.cycled, KIND(LAUNCH));
}

/* Cycled kinds are seen for a hundredth of the time: their few calls stand for many. */
static void test_rates_are_those_of_all_the_time(void **state)
{
	const struct cuda_kind_calls calls = { .calls = { COUNT(LAUNCH, 100), COUNT(SYNC, 100) },
					       .ns = { COUNT(LAUNCH, SECOND / 10000), COUNT(SYNC, SECOND) } };
	struct cuda_kinds kinds = { .cycled = KIND(LAUNCH) };
	struct cuda_kind_calls rates;

	cuda_kinds__add(&kinds, &calls, 2 * SECOND, SECOND / 50);
	cuda_kinds__rates(&kinds, &rates);
	assert_int_equal(rates.calls[SO_CUDA_LAUNCH], 5000 * 1000);
	assert_int_equal(rates.calls[SO_CUDA_SYNC], 50 * 1000);
	assert_int_equal(rates.calls[SO_CUDA_COPY], 0);
	/* 1 us a launch, and half of the time in waits. */
	assert_int_equal(rates.ns[SO_CUDA_LAUNCH], 5000 * 1000 * 1000ull);
	assert_int_equal(rates.ns[SO_CUDA_SYNC], 1000 * SECOND / 2);
	assert_int_equal(rates.ns[SO_CUDA_COPY], 0);
	assert_false(cuda_kinds__are_outgrown(&kinds, INFINITY));
}

static void test_another_phase_of_the_target(void **state)
{
	const struct cuda_kind_calls launches = { .calls = { COUNT(LAUNCH, 1000), COUNT(EVENT, 20) } };
	const struct cuda_kind_calls queries = { .calls = { COUNT(LAUNCH, 1), COUNT(EVENT, 100000) } };
	struct cuda_kinds kinds = { 0 };

	cuda_kinds__add(&kinds, &launches, SECOND, SECOND);
	cuda_kinds__choose(&kinds, INFINITY);
	assert_int_equal(kinds.cycled, KIND(LAUNCH));
	cuda_kinds__add(&kinds, &launches, SECOND, SECOND);
	assert_false(cuda_kinds__are_outgrown(&kinds, INFINITY));
	cuda_kinds__add(&kinds, &queries, SECOND, SECOND / 10);
	assert_true(cuda_kinds__are_outgrown(&kinds, INFINITY));
	cuda_kinds__choose(&kinds, INFINITY);
	assert_int_equal(kinds.cycled, KIND(EVENT));
	/* A moment is not enough to choose by. */
	cuda_kinds__add(&kinds, &launches, SECOND / 10, SECOND / 10);
	assert_false(cuda_kinds__are_outgrown(&kinds, INFINITY));
}

static void test_old_calls_weigh_less(void **state)
{
	const struct cuda_kind_calls launches = { .calls = { COUNT(LAUNCH, 1000) } };
	const struct cuda_kind_calls queries = { .calls = { COUNT(EVENT, 1000) } };
	struct cuda_kinds kinds = { 0 };

	for (int i = 0; i < 100; i++)
		cuda_kinds__add(&kinds, &launches, SECOND, SECOND);
	for (int i = 0; i < 30; i++)
		cuda_kinds__add(&kinds, &queries, SECOND, SECOND);
	cuda_kinds__choose(&kinds, INFINITY);
	assert_int_equal(kinds.cycled, KIND(EVENT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_most_of_the_calls_are_chosen),
		cmocka_unit_test(test_so_many_may_stay),
		cmocka_unit_test(test_waits_count_half),
		cmocka_unit_test(test_a_burst_is_over),
		cmocka_unit_test(test_bursts_that_were_missed),
		cmocka_unit_test(test_kinds_that_go_together),
		cmocka_unit_test(test_one_kind_alone),
		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_rates_are_those_of_all_the_time),
		cmocka_unit_test(test_another_phase_of_the_target),
		cmocka_unit_test(test_old_calls_weigh_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
