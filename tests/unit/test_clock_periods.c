// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "daemon/kernel/clock_periods.h"
#include "daemon/engine/engine.h"
#include "stakeout/sampler_abi.h"

#define STEP_NS (SO_RATE_MASK + 1)

static unsigned get(unsigned rate_hz, uint64_t *periods)
{
	unsigned n = clock_periods__get(rate_hz, periods);

	assert_in_range(n, 1, CLOCK_PERIODS_MAX);
	return n;
}

static void every_rate_has_its_sum(void **state)
{
	for (unsigned hz = ENGINE_MIN_RATE_HZ; hz <= ENGINE_MAX_RATE_HZ; hz++) {
		uint64_t periods[CLOCK_PERIODS_MAX];
		unsigned n = get(hz, periods);
		double sum = 0;

		for (unsigned i = 0; i < n; i++)
			sum += 1e9 / periods[i];
		if (fabs(sum / hz - 1) > (hz <= 1000 ? 2e-4 : 4e-4))
			fail_msg("%u Hz: the clocks tick at %.3f Hz together", hz, sum);
	}
}

static void periods_name_their_rate(void **state)
{
	assert_true(ENGINE_MAX_RATE_HZ <= SO_RATE_MASK);
	for (unsigned hz = ENGINE_MIN_RATE_HZ; hz <= ENGINE_MAX_RATE_HZ; hz++) {
		uint64_t periods[CLOCK_PERIODS_MAX];
		unsigned n = get(hz, periods);

		for (unsigned i = 0; i < n; i++)
			assert_int_equal(periods[i] & SO_RATE_MASK, hz);
		assert_int_equal(clock_periods__single(hz) & SO_RATE_MASK, hz);
	}
}

/* They differ from each other, by 5 % or so from their mean, and none is much longer than 100 ms. */
static void periods_are_spread(void **state)
{
	for (unsigned hz = ENGINE_MIN_RATE_HZ; hz <= ENGINE_MAX_RATE_HZ; hz++) {
		uint64_t periods[CLOCK_PERIODS_MAX];
		unsigned n = get(hz, periods);
		double mean_ns = 1e9 * n / hz, room_ns = 0.06 * mean_ns + 2 * STEP_NS;

		if (hz > 2000)
			room_ns = 0.14 * mean_ns;
		if (hz >= 80)
			assert_int_equal(n, CLOCK_PERIODS_MAX);
		for (unsigned i = 0; i < n; i++) {
			if (fabs(periods[i] - mean_ns) > room_ns)
				fail_msg("%u Hz: a period of %llu ns", hz, (unsigned long long)periods[i]);
			if (i && periods[i] <= periods[i - 1])
				fail_msg("%u Hz: periods %u and %u", hz, i - 1, i);
			if (n > 1 && periods[i] > 110000000)
				fail_msg("%u Hz: a period of %llu ns", hz, (unsigned long long)periods[i]);
		}
	}
}

/* No other clock keeps step with a target that one does: no ratio of numbers up to 9. */
static void ratios_are_of_large_numbers(void **state)
{
	uint64_t periods[CLOCK_PERIODS_MAX];

	get(ENGINE_DEFAULT_RATE_HZ, periods);
	for (unsigned i = 1; i < CLOCK_PERIODS_MAX; i++) {
		for (unsigned k = 0; k < i; k++) {
			double ratio = (double)periods[i] / periods[k];

			for (unsigned q = 1; q <= 9; q++) {
				if (fabs(ratio * q - round(ratio * q)) < 1e-3)
					fail_msg("periods %u and %u are in a ratio of %.0f to %u", i, k,
						 round(ratio * q), q);
			}
		}
	}
}

static void a_low_rate_has_one_clock(void **state)
{
	uint64_t periods[CLOCK_PERIODS_MAX];

	assert_int_equal(get(1, periods), 1);
	assert_true(fabs(periods[0] - 1e9) < STEP_NS);
	assert_int_equal(get(19, periods), 1);
	assert_int_equal(get(20, periods), 2);
	assert_int_equal(get(49, periods), 4);
	assert_int_equal(clock_periods__single(19), (get(19, periods), periods[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rate_has_its_sum),   cmocka_unit_test(periods_name_their_rate),
		cmocka_unit_test(periods_are_spread),       cmocka_unit_test(ratios_are_of_large_numbers),
		cmocka_unit_test(a_low_rate_has_one_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
