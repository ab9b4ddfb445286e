/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <math.h>

#include "client/render/render.h"

/* The 97.5 % quantile of the standard normal distribution: two-sided 95 %. */
#define WILSON_Z 1.959963984540054

static void interval(double hits, double n, double *low, double *high)
{
	double z2 = WILSON_Z * WILSON_Z, p, centre, half;

	/* Of nothing, nothing is known. */
	if (!(n > 0)) {
		*low = 0;
		*high = 1;
		return;
	}
	p = hits < n ? hits / n : 1;
	centre = (p + z2 / (2 * n)) / (1 + z2 / n);
	half = WILSON_Z / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
	/* At the ends the interval touches 0 or 1 exactly, which rounding would miss. */
	*low = hits > 0 ? fmax(0, centre - half) : 0;
	*high = hits < n ? fmin(1, centre + half) : 1;
}

void wilson_interval(uint64_t hits, uint64_t total, double *low, double *high)
{
	interval((double)hits, (double)total, low, high);
}

void share_interval(const struct profile *profile, int64_t hits, int64_t total, double *low, double *high)
{
	double observation = profile->observation > 0 ? profile->observation : 1;

	interval((double)hits / observation, (double)total / observation, low, high);
}
