/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How near the counts of a duty cycle come, from the sums that daemon/cuda/cuda_estimate.h explains. */
#ifndef STAKEOUT_CUDA_ESTIMATE_ERROR_H
#define STAKEOUT_CUDA_ESTIMATE_ERROR_H

#include <math.h>
#include <stdint.h>

/*
 * Student's t for 95 % on both sides, by the first terms of its expansion for many degrees of freedom (Abramowitz and Stegun,
 * 26.7.5); of 1 and 2, where it is no good, the values themselves.
 */
static inline double so_student_95(uint64_t freedom)
{
	const double z = 1.959964, n = (double)freedom;

	if (freedom < 3)
		return freedom < 2 ? 12.706 : 4.303;
	return z + (pow(z, 3) + z) / (4 * n) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n) +
	       (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) / (384 * n * n * n);
}

/* Within what share of `calls` they are right, with a probability of 95 %; NAN: less than two times on, or no calls, tell nothing. */
static inline double so_cuda_estimate_error(uint64_t times, double variance, double bias, uint64_t calls)
{
	return times < 2 || !calls ? NAN : (so_student_95(times - 1) * sqrt(variance) + bias) / (double)calls;
}

#endif
