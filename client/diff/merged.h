/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The profiles of both sides as one, for a flame graph that is coloured by change: the samples of one side have the
 * thread name "base", those of the other "new", and count in one unit, so that they can be held against each other.
 */
#ifndef STAKEOUT_CLIENT_DIFF_MERGED_H
#define STAKEOUT_CLIENT_DIFF_MERGED_H

#include "client/diff/compare.h"
#include "client/render/render.h"
#include "client/summary/summary.h"

#define MERGED_UNITS 1e9 /* of the side with more: its counts add up to about so much */

struct merged {
	struct profile profile; /* points into the profiles that it is made of */
	struct render_diff diff;
	char base_words[COMPARE_VALUE_BYTES], now_words[COMPARE_VALUE_BYTES];
};

/* inputs: of the base, then of the new side; these and the comparison of them stay. -ENOMEM, -EFBIG. */
int merged__new(const struct side_input *inputs, size_t n_base, size_t n_now, const struct summary_request *request,
		const struct comparison *comparison, struct merged **out);
void merged__free(struct merged *merged);
CLEANUP_DEFINE(struct merged *, merged, merged__free)

#endif
