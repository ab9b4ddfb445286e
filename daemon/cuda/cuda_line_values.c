// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_line_values.h"

#define MAX_VALUE 9007199254740992.0 /* 2^53: a double holds every whole number up to it; in ns 104 days */

static uint64_t next(double *owed, double exact)
{
	double due, whole;

	if (!(exact > 0)) /* NaN too */
		return 0;
	due = exact + *owed;
	if (due >= MAX_VALUE)
		return (uint64_t)MAX_VALUE;
	whole = due > 0 ? (double)(uint64_t)(due + 0.5) : 0;
	*owed = due - whole;
	return (uint64_t)whole;
}

bool cuda_line_values__next(struct cuda_line_values *all, const struct cuda_line *line,
			    uint64_t values[SO_CUDA_WEIGHT_COUNT])
{
	if (!(line->calls >= 0.5))
		return false;
	values[SO_CUDA_WEIGHT_CALLS] = next(&all->owed[SO_CUDA_WEIGHT_CALLS], line->calls);
	values[SO_CUDA_WEIGHT_TIME] = next(&all->owed[SO_CUDA_WEIGHT_TIME], line->total_ns);
	values[SO_CUDA_WEIGHT_BYTES] = next(&all->owed[SO_CUDA_WEIGHT_BYTES], line->bytes);
	return true;
}
