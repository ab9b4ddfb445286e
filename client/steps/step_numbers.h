/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers of calls, or of steps: their order, mean and quantiles. */
#ifndef STAKEOUT_CLIENT_STEP_NUMBERS_H
#define STAKEOUT_CLIENT_STEP_NUMBERS_H

#include <stddef.h>

#define STEP_NUMBERS_Z_95 1.96 /* standard errors on each side of a mean: 95 % of the normal distribution */

struct step_mean {
	double mean, interval; /* 95 %: mean +- so much; 0 of a single number */
};

void step_numbers__sort(size_t *numbers, size_t n);
/* n: at least 1. */
struct step_mean step_numbers__mean(const size_t *numbers, size_t n);
/* The smallest that a share q (above 0, up to 1) of them does not exceed. Of sorted ones, at least one. */
size_t step_numbers__quantile(const size_t *sorted, size_t n, double q);

#endif
