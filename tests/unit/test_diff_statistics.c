// SPDX-License-Identifier: GPL-2.0-or-later
/* The statistics of a comparison, by values that scipy 1.10 and statsmodels 0.13 give. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/diff/statistics.h"

static void assert_near(double value, double expected)
{
	if (fabs(value - expected) > 1e-9 * fabs(expected) + 1e-12)
		fail_msg("%.15g, expected %.15g", value, expected);
}

/* 2 * scipy.stats.t.sf(t, freedom) */
static void student(void **state)
{
	assert_near(student_p(0, 5), 1);
	assert_near(student_p(1, 1), 0.5);
	assert_near(student_p(-2.5, 7.3), 0.039650234665600415);
	assert_near(student_p(12, 38), 1.705124000284519e-14);
	assert_near(student_p(1.959963984540054, INFINITY), 0.05);
	assert_true(student_p(INFINITY, 3) == 0);
	assert_true(student_p(NAN, 3) == 1);
	assert_near(student_quantile(0.025, 4), 2.776445105197793);
	assert_near(student_quantile(0.025, 1), 12.706204736174694);
	assert_near(student_quantile(0.2, INFINITY), 0.8416212335729143);
}

static void change_of_blocks(void **state)
{
	const double base[] = { 10, 12, 11, 9, 13 }, now[] = { 14, 15, 13, 16, 12 }, w[] = { 1, 1, 1, 1, 1 };
	struct estimate b = estimate__of_blocks(base, w, 5, false), n = estimate__of_blocks(now, w, 5, false);
	struct change c = change__between(&b, &n);

	assert_near(b.value, 11);
	assert_near(b.variance, 0.5);
	assert_near(b.freedom, 4);
	assert_near(c.percent, 100 * 3.0 / 11);
	/* scipy.stats.ttest_ind(now, base, equal_var=False).pvalue */
	assert_near(c.p, 0.017071681233782634);
	assert_true(c.low > 0 && c.high > c.percent);
}

/* The interval excludes 0 where p is below 0.05, and only there. */
static void interval_agrees_with_p(void **state)
{
	for (double now = 5; now < 15; now += 0.01) {
		struct estimate b = { 10, 1.3, 8 }, n = { now, 0.9, 12 };
		struct change c = change__between(&b, &n);

		assert_true((c.p < STATISTICS_ALPHA) == (c.low > 0 || c.high < 0));
	}
}

static void edges(void **state)
{
	struct estimate none = { 0, 0, 10 }, some = { 5, 1, 10 }, unsure = { 5, 10, 10 };
	struct change c = change__between(&none, &some);

	assert_true(isinf(c.percent) && isinf(c.high) && c.p < 0.001);
	assert_true(isinf(change__smallest(&none, &some, 0.05)));
	c = change__between(&none, &none);
	assert_true(c.percent == 0 && c.p == 1);
	c = change__between(&unsure, &some);
	assert_true(isinf(c.high) && c.low >= -100);
	c = change__between(&some, &none);
	assert_near(c.percent, -100);
	assert_near(c.low, -100);
}

/* With the smallest change the difference is (t of 0.025 + t of 0.2) standard errors. */
static void smallest(void **state)
{
	struct estimate b = { 100, 1, INFINITY }, n = { 100, 1, INFINITY };
	double c = change__smallest(&b, &n, 0.05);

	assert_near(c, 100 * (1.959963984540054 + 0.8416212335729143) * sqrt(1 + 1 + c / 100) / 100);
	assert_true(change__smallest(&b, &n, 0.01) > c);
}

static void neighbours_that_resemble_each_other(void **state)
{
	double x[40], w[40];
	struct estimate apart, in_order;

	for (size_t i = 0; i < 40; i++) {
		x[i] = i / 10 % 2 ? 12 : 10;
		w[i] = 1;
	}
	apart = estimate__of_blocks(x, w, 40, false);
	in_order = estimate__of_blocks(x, w, 40, true);
	assert_near(in_order.value, apart.value);
	assert_true(in_order.variance > 4 * apart.variance);
	assert_true(in_order.freedom < 10 && in_order.freedom >= 3);
	for (size_t i = 0; i < 40; i++)
		x[i] = i % 2 ? 12 : 10;
	assert_near(estimate__of_blocks(x, w, 40, true).variance, apart.variance);
}

/* statsmodels.stats.multitest.multipletests(p, method="fdr_bh") */
static void discovery_rates(void **state)
{
	const double p[] = { 0.01, 0.04, 0.03, 0.005, 0.9 }, expected[] = { 0.025, 0.05, 0.05, 0.025, 0.9 };
	double q[5];

	assert_int_equal(false_discovery_rates(p, 5, q), 0);
	for (size_t i = 0; i < 5; i++)
		assert_near(q[i], expected[i]);
	assert_int_equal(false_discovery_rates(p, 0, q), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(student),
		cmocka_unit_test(change_of_blocks),
		cmocka_unit_test(interval_agrees_with_p),
		cmocka_unit_test(edges),
		cmocka_unit_test(smallest),
		cmocka_unit_test(neighbours_that_resemble_each_other),
		cmocka_unit_test(discovery_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
