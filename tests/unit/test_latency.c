// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "stakeout/latency.h"

/* The value lies in its bucket; the bucket's middle is 1/64 of the value off at most. */
static void expect(uint64_t ns)
{
	uint32_t octave = latency_octave(ns), bucket = latency_bucket(ns, octave);
	uint64_t lower, width;

	if (octave >= LATENCY_OCTAVES || bucket >= LATENCY_BUCKETS)
		fail_msg("%llu: octave %u, bucket %u", (unsigned long long)ns, octave, bucket);
	lower = latency_lower(octave, bucket);
	width = latency_width(octave);
	if (ns >> 40) {
		if (octave != LATENCY_OCTAVES - 1 || bucket != LATENCY_BUCKETS - 1)
			fail_msg("%llu: not in the last bucket", (unsigned long long)ns);
		return;
	}
	if (ns < lower || ns - lower >= width)
		fail_msg("%llu is not in %llu … + %llu", (unsigned long long)ns, (unsigned long long)lower,
			 (unsigned long long)width);
	/* In 2^-1 ns: the middle of the bucket's whole numbers. */
	if (64 * llabs((long long)(2 * ns) - (long long)(2 * lower + width - 1)) > (long long)(2 * ns))
		fail_msg("%llu: the middle of its bucket is too far off", (unsigned long long)ns);
}

static void test_low(void **state)
{
	for (uint64_t ns = 0; ns <= 1u << 22; ns++)
		expect(ns);
}

static void test_edges(void **state)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		expect(1ull << bit);
		expect((1ull << bit) - 1);
		expect((1ull << bit) + 1);
	}
	expect(UINT64_MAX);
}

static void test_random(void **state)
{
	uint64_t random = 1;

	for (unsigned i = 0; i < 1000000; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		expect(random);
		expect(random >> (random >> 58));
	}
}

/* The buckets follow each other without gaps, and each holds its own bounds. */
static void test_buckets(void **state)
{
	uint64_t next = 0;

	for (uint32_t octave = 0; octave < LATENCY_OCTAVES; octave++) {
		for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
			uint64_t last = next + latency_width(octave) - 1;

			assert_int_equal(latency_lower(octave, bucket), next);
			assert_int_equal(latency_octave(next), octave);
			assert_int_equal(latency_bucket(next, octave), bucket);
			assert_int_equal(latency_octave(last), octave);
			assert_int_equal(latency_bucket(last, octave), bucket);
			next = last + 1;
		}
	}
	assert_int_equal(next, 1ull << 40);
}

static void test_log2(void **state)
{
	assert_int_equal(latency_log2(0), 0);
	for (unsigned bit = 0; bit < 64; bit++) {
		assert_int_equal(latency_log2(1ull << bit), bit);
		assert_int_equal(latency_log2((1ull << bit) | ((1ull << bit) - 1)), bit);
		assert_int_equal(latency_log2((1ull << bit) | (0x5555555555555555ull & ((1ull << bit) - 1))),
				 bit);
	}
}

/* 2^28 squares of an octave's longest time fit 64 bits, and a shift loses less than 2^-16 of a square. */
static void test_squares(void **state)
{
	for (uint32_t octave = 0; octave < LATENCY_OCTAVES; octave++) {
		uint32_t shift = latency_square_shift(octave);
		uint64_t longest = latency_lower(octave, LATENCY_BUCKETS - 1) + latency_width(octave) - 1, kept;
		uint64_t shortest = latency_lower(octave, 0) | ((1ull << shift) - 1);
		double exact = (double)shortest * (double)shortest, unit;

		assert_true((longest >> shift) * (longest >> shift) <= UINT64_MAX >> 28);
		kept = (shortest >> shift) * (shortest >> shift);
		unit = (double)(1ull << 2 * shift);
		assert_true((double)kept * unit <= exact);
		assert_true((exact - (double)kept * unit) * 65536 <= exact);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_low),     cmocka_unit_test(test_edges), cmocka_unit_test(test_random),
		cmocka_unit_test(test_buckets), cmocka_unit_test(test_log2),  cmocka_unit_test(test_squares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
