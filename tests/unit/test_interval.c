/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/render/render.h"

/*
 * Newcombe, Statistics in Medicine 17 (1998) 857–872, table I, method 3 (Wilson's score without continuity
 * correction): four examples, to four places.
 */
static void published_values(void **state)
{
	static const struct {
		uint64_t hits, total;
		double low, high;
	} cases[] = {
		{ 81, 263, 0.2553, 0.3662 },
		{ 15, 148, 0.0624, 0.1605 },
		{ 0, 20, 0.0000, 0.1611 },
		{ 1, 29, 0.0061, 0.1718 },
	};
	double low, high;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		wilson_interval(cases[i].hits, cases[i].total, &low, &high);
		assert_true(fabs(low - cases[i].low) < 0.00005);
		assert_true(fabs(high - cases[i].high) < 0.00005);
	}
}

/* The bounds are the shares at which the observed one lies exactly z standard errors away: Wilson's definition. */
static void bounds_solve_the_defining_equation(void **state)
{
	static const uint64_t totals[] = { 1, 2, 10, 990, 123457, 4000000000 };
	double bounds[2], z = 1.959963984540054;

	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		for (uint64_t tenth = 1; tenth < 10; tenth++) {
			uint64_t hits = totals[i] * tenth / 10;
			double p = (double)hits / (double)totals[i];

			wilson_interval(hits, totals[i], &bounds[0], &bounds[1]);
			assert_true(bounds[0] <= p && p <= bounds[1]);
			for (int side = 0; side < 2; side++) {
				double error = sqrt(bounds[side] * (1 - bounds[side]) / (double)totals[i]);

				assert_true(fabs(fabs(p - bounds[side]) - z * error) < 1e-9);
			}
		}
	}
}

static void ends(void **state)
{
	double low, high;

	wilson_interval(0, 0, &low, &high);
	assert_true(low == 0 && high == 1);
	wilson_interval(0, 7, &low, &high);
	assert_true(low == 0 && high > 0.3 && high < 0.4);
	wilson_interval(7, 7, &low, &high);
	assert_true(high == 1 && low > 0.6 && low < 0.7);
	wilson_interval(UINT64_MAX, UINT64_MAX, &low, &high);
	assert_true(high == 1 && low > 0.999 && low <= 1);
	/* More hits than trials cannot be; the share stays one. */
	wilson_interval(9, 7, &low, &high);
	assert_true(high == 1 && low > 0 && low < 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_values),
		cmocka_unit_test(bounds_solve_the_defining_equation),
		cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
