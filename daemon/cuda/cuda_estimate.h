/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How near the counts of a duty cycle come to what was called. All members are sums over times on, so what a span of time has is a
 * difference of two, and what two spans have is the sum of theirs. The time off after the last one is added to what is told, and kept where the
 * last process ended in it.
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
#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cuda_api.h"

struct cuda_estimate {
	uint64_t offs;   /* times off in which calls were not seen; 0: all were counted */
	uint64_t times;  /* on, that stand for a time off */
	double calls;    /* that they stand for, and that were not seen */
	double variance; /* of that; each but the first time on adds to it */
	double bias;     /* of these calls, so many may be too few or too many (95 %) by what the probes took */
};

/* One for the calls of each kind, and one for all. The error of a sum is not the sum of errors: what times on differ by may be the same calls in other places. */
#define CUDA_ESTIMATE_ALL SO_CUDA_KIND_COUNT
#define CUDA_ESTIMATES    (CUDA_ESTIMATE_ALL + 1)

struct cuda_estimates {
	struct cuda_estimate of[CUDA_ESTIMATES]; /* by enum so_cuda_kind */
};

/* Calls of the kinds that come and go, which a time on has seen. */
struct cuda_estimate_seen {
	uint32_t kinds; /* 1 << enum so_cuda_kind */
	double ns;      /* its length, but for waits (cuda_active.h) */
	double factor;  /* what each of its calls stands for */
	double error; /* of factor, as a part (95 %), since what the target went without is not known better */
	double calls[CUDA_ESTIMATES];
};

/* What times on tell of their neighbours. */
struct cuda_estimate_rates {
	struct {
		double calls;    /* in a ns of the last time on */
		double variance; /* of the calls in a time on, by ns of it; of the last ones */
		bool has_calls, has_variance;
	} of[CUDA_ESTIMATES];
};

/* Adds a time on that stands for a time off before it. */
void cuda_estimates__add(struct cuda_estimates *e, const struct cuda_estimate_rates *rates,
			 const struct cuda_estimate_seen *seen);
/*
 * Adds a time off that the last time on stands for, `seen`: each of its calls for `factor` more than the seen->factor that it was added
 * with. Of kinds that it knows nothing of, `calls` is 0, and is not all.
 */
void cuda_estimates__add_off(struct cuda_estimates *e, const struct cuda_estimate_rates *rates,
			     const struct cuda_estimate_seen *seen, double factor);
/* Remembers a time on that is over, and its rate where it is a neighbour of the next one. */
void cuda_estimate_rates__add(struct cuda_estimate_rates *rates, const struct cuda_estimate_seen *seen,
			      bool is_neighbour);
/* Others are the kinds that come and go from now on: of those that are so no longer nothing is known, and no time on has a neighbour. */
void cuda_estimate_rates__change(struct cuda_estimate_rates *rates, uint32_t kinds);
/* What came after `base`. */
struct cuda_estimates cuda_estimates__since(const struct cuda_estimates *now,
					    const struct cuda_estimates *base);
/* Whether some calls were not seen. Windows of older daemons do not have `offs`. */
static inline bool cuda_estimate__is_any(const struct cuda_estimate *e)
{
	return e->offs || e->times || e->calls > 0;
}

static inline bool cuda_estimates__are_any(const struct cuda_estimates *e)
{
	return cuda_estimate__is_any(&e->of[CUDA_ESTIMATE_ALL]);
}
/*
 * As answers and stored windows have it: {"times_off", "times", "calls", "variance", "bias", "by_kind": {kind: the same}}, of kinds of which
 * calls were not seen. null: all calls were seen. NULL: no memory. New reference.
 */
json_t *cuda_estimates__json(const struct cuda_estimates *e);

#endif
