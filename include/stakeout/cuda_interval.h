/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The 95 % interval of calls that were counted in on-windows alone. All members are sums over on-windows, so those of
 * two spans of time add up, and what a span has is a difference of two.
 *
 * An on-window of length w, in which calls came at the rate r, is scaled to its cycle of length T. With s², the
 * variance of r from window to window, the error of the (T - w) r calls that were not seen has the variance T (T - w)
 * s²: (T - w)² s² of the window, and of the off-window, which is as long as (T - w) / w independent windows, (T - w)
 * w s².
 */
#ifndef STAKEOUT_CUDA_INTERVAL_H
#define STAKEOUT_CUDA_INTERVAL_H

#include <math.h>

/* X(member, word) */
#define SO_CUDA_ESTIMATE_SUMS(X)                                                                            \
	X(windows, "windows")   /* on-windows */                                                            \
	X(calls, "calls")       /* that were not seen, and are in the counts */                             \
	X(rates, "rates")       /* r, calls a second */                                                     \
	X(squares, "squares")   /* r² */                                                                   \
	X(weight, "weight")     /* T (T - w), s² */                                                        \
	X(slowdown, "slowdown") /* so many calls more, or fewer, by what the probes may have slowed down */ \
	X(blind, "blind")       /* on-windows whose calls are a lower bound alone: the probes took too much */

struct so_cuda_estimate {
#define X(member, word) double member;
	SO_CUDA_ESTIMATE_SUMS(X)
#undef X
};

/*
 * Student's t for 95 % on both sides, by the first terms of its expansion for many degrees of freedom (Abramowitz and
 * Stegun, 26.7.5); of 1 and 2, where it is no good, the values themselves.
 */
static inline double so_student_95(double freedom)
{
	const double z = 1.959964, n = freedom;

	if (freedom < 3)
		return freedom < 2 ? 12.706 : 4.303;
	return z + (pow(z, 3) + z) / (4 * n) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n) +
	       (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) / (384 * n * n * n);
}

/* So many windows may be blind: their calls count as slowed down as much as can be known. */
#define SO_CUDA_BLIND_SHARE 0.05

/*
 * The interval's half, in calls; 0: all were seen. NAN: calls were missed, and windows tell nothing of them: there are
 * fewer than two, or the probes took nearly all of the time in too many, and the calls are that many at least.
 */
static inline double so_cuda_interval(const struct so_cuda_estimate *e)
{
	double variance;

	if (e->windows < 2 || e->blind > SO_CUDA_BLIND_SHARE * e->windows)
		return e->weight > 0 ? NAN : 0;
	variance = (e->squares - e->rates * e->rates / e->windows) / (e->windows - 1);
	return so_student_95(e->windows - 1) * sqrt(fmax(variance, 0) * fmax(e->weight, 0)) + fmax(e->slowdown, 0);
}

#endif
