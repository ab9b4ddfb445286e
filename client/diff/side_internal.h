/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For side.c, and for side_fill.c, which reads profiles into a side. */
#ifndef STAKEOUT_CLIENT_DIFF_SIDE_INTERNAL_H
#define STAKEOUT_CLIENT_DIFF_SIDE_INTERNAL_H

#include "client/diff/side.h"

/* Blocks, rows and cells. -EINVAL: damaged steps; -ENOMEM; -EFBIG. */
int side__fill(struct side *side, const struct side_input *inputs, size_t n, const struct summary_request *request);

/* side_blocks.c: how a profile's time is divided. */
struct time_blocks {
	int64_t begin_ns, end_ns; /* since the profile's begin; what is outside does not count */
	size_t first, n;          /* blocks of the side */
	bool in_time;             /* false: one block takes all */
};

/* Makes the blocks of one profile, behind those that the side has. -EINVAL: damaged steps; -ENOMEM. */
int side__add_blocks(struct side *side, const struct side_input *input, struct time_blocks *out);
/* Calls `take` for each block in which the sample was, with its part of the amount. */
typedef void blocks_take(void *context, size_t block, double amount);
void time_blocks__divide(const struct time_blocks *blocks, const struct profile_sample *sample, double amount,
			 blocks_take *take, void *context);

#endif
