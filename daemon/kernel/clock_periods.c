// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/clock_periods.h"

#include <math.h>

#include "stakeout/sampler_abi.h"

#define SECOND_NS 1e9
#define STEP_NS   (SO_RATE_MASK + 1) /* periods of a rate differ by multiples of this */

/* The least distance of two periods before rounding, in steps: at high rates the spread is wider for it. */
#define MIN_DISTANCE 1.3

/*
 * By these a clock's rate differs from an equal share of the whole. Uneven, so that few are in a ratio of small
 * numbers: found by a search for the least share of clocks that any target of fixed rounds can keep step with for long.
 */
static const double deviations[CLOCK_PERIODS_MAX] = {
	0.0500, 0.0351, 0.0176, 0.0093, -0.0131, -0.0183, -0.0320, -0.0486
};

struct choice {
	unsigned n, rate_hz;
	uint64_t first[CLOCK_PERIODS_MAX];
	int change[CLOCK_PERIODS_MAX], best[CLOCK_PERIODS_MAX]; /* steps */
	double error;
};

/* The period nearest to this that has the rate in its bits. */
static uint64_t tagged(double period_ns, unsigned rate_hz)
{
	double steps = round((period_ns - rate_hz) / STEP_NS);

	return (uint64_t)(steps < 0 ? 0 : steps) * STEP_NS + rate_hz;
}

static uint64_t changed(const struct choice *c, unsigned i)
{
	return c->first[i] + (int64_t)c->change[i] * STEP_NS;
}

/* Tries all ways to make the periods from `i` on a step longer or shorter, for the sum of rates nearest the nominal. */
static void choose(struct choice *c, unsigned i, double missing_hz)
{
	if (i == c->n) {
		if (fabs(missing_hz) >= c->error)
			return;
		c->error = fabs(missing_hz);
		for (unsigned k = 0; k < c->n; k++)
			c->best[k] = c->change[k];
		return;
	}
	for (c->change[i] = -1; c->change[i] <= 1; c->change[i]++) {
		if (!i || changed(c, i) > changed(c, i - 1))
			choose(c, i + 1, missing_hz - SECOND_NS / changed(c, i));
	}
}

unsigned clock_periods__get(unsigned rate_hz, uint64_t periods[CLOCK_PERIODS_MAX])
{
	struct choice c = { .n = rate_hz / 10, .rate_hz = rate_hz, .error = INFINITY };
	double share[CLOCK_PERIODS_MAX], mean_ns, wider, sum = 0;

	if (c.n <= 1) {
		periods[0] = clock_periods__single(rate_hz);
		return 1;
	}
	if (c.n > CLOCK_PERIODS_MAX)
		c.n = CLOCK_PERIODS_MAX;
	mean_ns = c.n * SECOND_NS / rate_hz;
	wider = MIN_DISTANCE * STEP_NS / mean_ns * (CLOCK_PERIODS_MAX - 1) / (deviations[0] - deviations[7]);
	for (unsigned i = 0; i < c.n; i++) {
		share[i] = 1 + deviations[i * (CLOCK_PERIODS_MAX - 1) / (c.n - 1)] * (wider > 1 ? wider : 1);
		sum += share[i];
	}
	for (unsigned i = 0; i < c.n; i++)
		c.first[i] = tagged(SECOND_NS / (rate_hz * share[i] / sum), rate_hz);
	choose(&c, 0, rate_hz);
	for (unsigned i = 0; i < c.n; i++)
		periods[i] = c.first[i] + (int64_t)c.best[i] * STEP_NS;
	return c.n;
}

uint64_t clock_periods__single(unsigned rate_hz)
{
	return tagged(SECOND_NS / rate_hz, rate_hz);
}
