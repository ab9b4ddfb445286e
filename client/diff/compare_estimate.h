/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One figure of either side, with its variance, and the change between them (.design/comparison.md). For compare.c. */
#ifndef STAKEOUT_CLIENT_DIFF_COMPARE_ESTIMATE_H
#define STAKEOUT_CLIENT_DIFF_COMPARE_ESTIMATE_H

#include "client/diff/compare.h"

/* A figure of a side that is estimated: its cells, and what they are divided by. */
struct figure {
	const struct side *side;
	const double *cells;        /* by block; NULL: it has none of it */
	const struct side_row *row; /* of counts; NULL: the figure is not made of samples */
	enum compare_unit unit;
};

/* The base's figure and the new side's: fills in row->base, ->now and ->change. -ENOMEM. */
int compare_estimate__both(const struct comparison *c, const struct figure figures[2], struct compared *row);

#endif
