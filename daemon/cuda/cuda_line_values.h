/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole numbers for a profile out of lines whose figures were scaled up, and are fractions for that. */
#ifndef STAKEOUT_CUDA_LINE_VALUES_H
#define STAKEOUT_CUDA_LINE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/cuda/cuda_watch.h"
#include "stakeout/cuda_event.h"

/* What the whole numbers of the lines so far are short of; all zero to begin with. */
struct cuda_line_values {
	double owed[SO_CUDA_WEIGHT_COUNT];
};

/*
 * values: by enum so_cuda_weight, calls, nanoseconds and bytes. Each is within 1 of the line's, and the sum over all
 * lines within 1 of theirs (below 2^52, where a double has no fraction left). False: less than half a call, which is
 * what rounding leaves of a line that had none since a view began; it is to be left out, and counts for nothing here.
 */
bool cuda_line_values__next(struct cuda_line_values *all, const struct cuda_line *line,
			    uint64_t values[SO_CUDA_WEIGHT_COUNT]);

#endif
