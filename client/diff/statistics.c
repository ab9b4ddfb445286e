// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "stakeout/cleanup.h"

#define FRACTION_TERMS   500
#define FRACTION_EXACT   1e-15
#define FRACTION_TINY    1e-300
#define BISECTIONS       200
#define MOST_CHANGE      1000 /* times the base's value */
#define MOST_CORRELATION 0.7  /* of neighbours; a single long stall makes more of it than there is */
#define LEAST_FREEDOM    3
#define MOST_FREEDOM     1e9 /* beyond, t is normal to all digits */

/*
 * The continued fraction of the incomplete beta function, https://dlmf.nist.gov/8.17.E22, from its first term on by
 * Lentz's method: the numerators are those of E23, all denominators 1.
 */
static double beta_fraction(double a, double b, double x)
{
	double value = 1, upper = 1, lower = 0;

	for (int i = 1; i <= FRACTION_TERMS; i++) {
		double m = i / 2, term;

		term = i % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
			     : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		lower = 1 + term * lower;
		upper = 1 + term / upper;
		lower = 1 / (fabs(lower) > FRACTION_TINY ? lower : FRACTION_TINY);
		if (fabs(upper) < FRACTION_TINY)
			upper = FRACTION_TINY;
		value *= upper * lower;
		if (fabs(upper * lower - 1) < FRACTION_EXACT)
			break;
	}
	return 1 / value;
}

/* The regularised incomplete beta function; 1 − x is given as it is known best. */
static double incomplete_beta(double a, double b, double x, double rest)
{
	double front;

	if (x <= 0 || rest <= 0)
		return x <= 0 ? 0 : 1;
	/* The fraction converges fast on this side alone. */
	if (x > (a + 1) / (a + b + 2))
		return 1 - incomplete_beta(b, a, rest, x);
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest));
	return front * beta_fraction(a, b, x) / a;
}

double student_p(double t, double freedom)
{
	double square = t * t;

	if (isnan(t) || isinf(t))
		return isnan(t) ? 1 : 0;
	if (freedom > MOST_FREEDOM)
		return erfc(fabs(t) / M_SQRT2);
	return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square));
}

double student_quantile(double p, double freedom)
{
	double low = 0, high = 1;

	while (student_p(high, freedom) > 2 * p && high < 1e12)
		high *= 2;
	for (int i = 0; i < BISECTIONS && high - low > 1e-12 * high; i++) {
		double middle = (low + high) / 2;

		if (student_p(middle, freedom) > 2 * p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/*
 * By how much blocks that resemble their neighbours make the variance too small: (1 + r) / (1 − r), as for a
 * first-order autoregression, where r is the correlation of neighbours. That of few blocks comes out too small by
 * (1 + 4r) / n (M. G. Kendall, Biometrika 41 (1954) 403–404), and by chance above 1 / sqrt(n) in one of six cases.
 */
static double inflation(const double *x, const double *w, double value, size_t n)
{
	double products = 0, squares = 0, before = 0, r;

	for (size_t i = 0; i < n; i++) {
		double residual = x[i] - value * w[i];

		products += i ? residual * before : 0;
		squares += residual * residual;
		before = residual;
	}
	if (!(squares > 0))
		return 1;
	r = products / squares;
	r += (1 + 4 * r) / (double)n;
	if (r < 1 / sqrt((double)n))
		return 1;
	r = r < MOST_CORRELATION ? r : MOST_CORRELATION;
	return (1 + r) / (1 - r);
}

struct estimate estimate__of_blocks(const double *x, const double *w, size_t n, bool in_order)
{
	double sum_x = 0, sum_w = 0, squares = 0, more = 1;
	struct estimate e;

	for (size_t i = 0; i < n; i++) {
		sum_x += x[i];
		sum_w += w[i];
	}
	e.value = sum_x / sum_w;
	for (size_t i = 0; i < n; i++) {
		double residual = x[i] - e.value * w[i];

		squares += residual * residual;
	}
	if (in_order)
		more = inflation(x, w, e.value, n);
	e.variance = squares / (double)(n - 1) * (double)n / (sum_w * sum_w) * more;
	/* So many independent blocks would say as much. */
	e.freedom = (double)n / more - 1;
	if (more > 1 && e.freedom < LEAST_FREEDOM)
		e.freedom = LEAST_FREEDOM;
	return e;
}

/* Welch's degrees of freedom, after Satterthwaite, for the sum of two variances. */
static double welch_freedom(const struct estimate *a, const struct estimate *b)
{
	double sum = a->variance + b->variance,
	       parts = a->variance * a->variance / a->freedom + b->variance * b->variance / b->freedom;

	return parts > 0 ? sum * sum / parts : a->freedom + b->freedom;
}

/* Bounds of now / base: all ratios r for which now − r·base is within t standard errors of 0. */
static void fieller(const struct estimate *base, const struct estimate *now, double t, double *low, double *high)
{
	double a = base->value * base->value - t * t * base->variance, b = base->value * now->value,
	       c = now->value * now->value - t * t * now->variance, root = b * b - a * c;

	*low = 0;
	*high = INFINITY;
	/* The base may be 0: there is no upper bound. */
	if (a <= 0)
		return;
	root = root > 0 ? sqrt(root) : 0;
	*low = b - root > 0 ? (b - root) / a : 0;
	*high = (b + root) / a;
}

struct change change__between(const struct estimate *base, const struct estimate *now)
{
	double difference = now->value - base->value, error = sqrt(base->variance + now->variance), low, high, t;
	struct change c = { .freedom = welch_freedom(base, now), .p = 1 };

	if (difference != 0)
		c.p = error > 0 ? student_p(difference / error, c.freedom) : 0;
	c.percent = base->value > 0 ? 100 * difference / base->value : now->value > 0 ? INFINITY : 0;
	t = student_quantile(STATISTICS_ALPHA / 2, c.freedom);
	fieller(base, now, t, &low, &high);
	c.low = 100 * (low - 1);
	c.high = 100 * (high - 1);
	return c;
}

double change__smallest(const struct estimate *base, const struct estimate *now, double alpha)
{
	/* The new side's as it would be at the base's value. */
	double at_base = now->value > 0 ? now->variance * base->value / now->value : base->variance;
	struct estimate equal = { base->value, at_base, now->freedom };
	double freedom = welch_freedom(base, &equal), change = 0;
	double errors = student_quantile(alpha / 2, freedom) + student_quantile(1 - STATISTICS_POWER, freedom);

	if (base->value <= 0)
		return INFINITY;
	for (int i = 0; i < BISECTIONS && change < MOST_CHANGE; i++) {
		double next = errors * sqrt(base->variance + at_base * (1 + change)) / base->value;

		if (fabs(next - change) < 1e-14 * next)
			break;
		change = next;
	}
	return change < MOST_CHANGE ? 100 * change : INFINITY;
}

static int compare_p(const void *a, const void *b, void *values)
{
	const double *p = values, x = p[*(const size_t *)a], y = p[*(const size_t *)b];

	return (x > y) - (x < y);
}

int false_discovery_rates(const double *p, size_t n, double *q)
{
	_cleanup_free_ size_t *order = calloc(n + 1, sizeof(*order));
	double least = 1;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare_p, (void *)p);
	for (size_t i = n; i-- > 0;) {
		double rate = p[order[i]] * (double)n / (double)(i + 1);

		least = rate < least ? rate : least;
		q[order[i]] = least;
	}
	return 0;
}
