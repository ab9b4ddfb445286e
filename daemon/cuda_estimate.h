/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How near the counts of a duty cycle come to what was called. All members are sums over times on, so what a span of time has is a
 * difference of two, and what two spans have is the sum of theirs; the time off after the last one is added to what is told, and not kept.
 *
 * A time on in which s calls were seen stands for f × s: for the (f - 1) × s of the time off before it, which were not seen. How far
 * that is off is told by how much times on differ. With d, the difference of s and of what the time on before it would have had in a
 * time as long, d² / 2 estimates the variance of s: differences of neighbours, since a target that slowly makes more and more
 * calls is no source of error. The error of (f - 1) × s has (f - 1)² of that variance by the time on, and f - 1 times by the time off,
 * taken for as many independent times; f (f - 1) d² / 2 in all.
 */
#ifndef STAKEOUT_CUDA_ESTIMATE_H
#define STAKEOUT_CUDA_ESTIMATE_H

#include <jansson.h>
#include <stdint.h>

struct cuda_estimate {
	uint64_t times;  /* on, that stand for a time off */
	double calls;    /* that they stand for, and that were not seen */
	double variance; /* of that; each but the first time on adds to it */
	double bias;     /* of these calls, so many may be too few or too many (95 %) by what the probes took */
};

/*
 * A time on that saw `seen` calls; before_it: what it would have seen at the rate of the time on before, < 0: there is none. factor: what
 * a call stands for. cost_error: the part of this that may be wrong (95 %) since what the
 * target went without is not known better.
 */
static inline void cuda_estimate__add(struct cuda_estimate *e, double seen, double before_it, double factor,
				      double cost_error)
{
	double d = seen - before_it, unseen = (factor - 1) * seen;

	e->times++;
	e->calls += unseen;
	if (before_it >= 0)
		e->variance += factor * (factor - 1) * d * d / 2;
	e->bias += cost_error * unseen;
}

/*
 * The time off after the last time on, which saw `seen` calls and is taken to be like it: each of them stands for `factor` more than the
 * last_factor that it was added with. variance: of `seen`, by the times on so far.
 */
static inline void cuda_estimate__add_tail(struct cuda_estimate *e, double seen, double variance,
					   double last_factor, double factor, double cost_error)
{
	e->calls += factor * seen;
	/* (last_factor - 1 + factor)² by what was seen, less what is there already; and `factor` times by what was not. */
	e->variance += factor * (factor + 2 * (last_factor - 1) + 1) * variance;
	e->bias += cost_error * factor * seen;
}

/* What came after `base`. */
static inline struct cuda_estimate cuda_estimate__since(const struct cuda_estimate *now,
							const struct cuda_estimate *base)
{
	return (struct cuda_estimate){ now->times - base->times, now->calls - base->calls,
				       now->variance - base->variance, now->bias - base->bias };
}

/* As answers and stored windows have it; null: no time on stands for any other. New reference. */
static inline json_t *cuda_estimate__json(const struct cuda_estimate *e)
{
	return e->times || e->calls > 0 ? json_pack("{s:I, s:f, s:f, s:f}", "times", (json_int_t)e->times,
						    "calls", e->calls, "variance", e->variance, "bias", e->bias)
					: json_null();
}

#endif
