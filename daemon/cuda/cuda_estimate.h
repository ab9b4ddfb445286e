/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How near the counts of windowed calls come to what was called, by API (stakeout/cuda_interval.h). */
#ifndef STAKEOUT_CUDA_ESTIMATE_H
#define STAKEOUT_CUDA_ESTIMATE_H

#include <jansson.h>
#include <stdbool.h>

#include "stakeout/cuda_api.h"
#include "stakeout/cuda_interval.h"

/* One for each API, and one for all: rates of APIs may rise and fall together, or one against the other. */
#define CUDA_ESTIMATE_ALL SO_CUDA_API_COUNT
#define CUDA_ESTIMATES    (CUDA_ESTIMATE_ALL + 1)

struct cuda_estimates {
	struct so_cuda_estimate of[CUDA_ESTIMATES];
};

/* into += times × what; times is 1 or -1. */
void cuda_estimates__add(struct cuda_estimates *into, const struct cuda_estimates *what, double times);
static inline bool cuda_estimates__are_any(const struct cuda_estimates *e)
{
	return e->of[CUDA_ESTIMATE_ALL].calls > 0;
}
/*
 * As answers and stored windows have it: the sums' members, "interval" (so_cuda_interval(); null: not known) and
 * "by_api" with the same of each API that has any. null: all calls were seen. NULL: no memory. New reference.
 */
json_t *cuda_estimates__json(const struct cuda_estimates *e);

#endif
