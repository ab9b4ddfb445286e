/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The statistics of a comparison: a ratio of sums over blocks with its variance, the change between two such ratios
 * with its interval and p-value, and the correction for many rows. .design/comparison.md has the reasons.
 */
#ifndef STAKEOUT_CLIENT_DIFF_STATISTICS_H
#define STAKEOUT_CLIENT_DIFF_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

#define STATISTICS_ALPHA 0.05 /* of all tests and intervals */
#define STATISTICS_POWER 0.80 /* with which the smallest change is found */

/* The probability that Student's t of that many degrees of freedom (above 0) is beyond |t|, on either side. */
double student_p(double t, double freedom);
/* The t that is exceeded with probability p on one side, 0 < p < 0.5. */
double student_quantile(double p, double freedom);

/* A ratio of sums, such as seconds a step. */
struct estimate {
	double value;
	double variance; /* of value; 0 or more */
	double freedom;  /* degrees of freedom of that variance */
};

/*
 * sum(x) / sum(w) over n ≥ 2 blocks, with the variance of that ratio by its residuals x − value·w (linearised). sum(w)
 * is above 0. in_order: the blocks follow each other in time; where neighbours resemble each other, the variance is
 * raised, and its degrees of freedom are fewer.
 */
struct estimate estimate__of_blocks(const double *x, const double *w, size_t n, bool in_order);

/* A change in percent of the base's value; the bounds of its 95 % interval are −100 … INFINITY. */
struct change {
	double percent; /* INFINITY: the base's value is 0 */
	double low, high;
	double p;        /* that there is none: Welch's t test of the difference; 1 where both values are equal */
	double smallest; /* the smallest change that would be found; see change__smallest() */
	double freedom;
};

/* The interval is Fieller's, which excludes 0 exactly where p is below STATISTICS_ALPHA. `smallest` is 0. */
struct change change__between(const struct estimate *base, const struct estimate *now);
/*
 * In percent: the change of the base's value that data like these show at this alpha (two-sided) with
 * STATISTICS_POWER. The variance of the new side grows with its value. INFINITY: none below a thousandfold.
 */
double change__smallest(const struct estimate *base, const struct estimate *now, double alpha);

/*
 * Benjamini and Hochberg's correction (J. R. Stat. Soc. B 57 (1995) 289–300): q[i] is the smallest false discovery
 * rate at which p[i] is significant. -ENOMEM.
 */
int false_discovery_rates(const double *p, size_t n, double *q);

#endif
