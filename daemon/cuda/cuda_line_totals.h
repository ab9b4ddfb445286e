/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines that add up to what was counted. Of all calls it is known how many there were and what they took; of which
 * lines they are, by stacks of some of them, whose scaled sums are off by chance, and by what the scaling of
 * on-windows makes of single stacks. What an API's lines lack of its calls, or have too much, is shared out in
 * proportion to the variance of each: so the sum comes out right, and lines nearer on average than they were. A line
 * that stands for no calls but those seen stays as it is, unless that is so of all lines of an API and a few of its
 * calls are missing: those may be of any line, and are shared out by what each has, as far as that makes a call.
 *
 * Variance of a line's figure t by stacks that are taken at random, of calls with s of it in all: Σ x² w (w - 1) over
 * the n stacks, each of a call with x that stands for w; t (t - s) / n where they are alike. Where a line's calls are
 * some long and some short it is not right, so its part of what is shared out may be too large or too small.
 */
#ifndef STAKEOUT_CUDA_LINE_TOTALS_H
#define STAKEOUT_CUDA_LINE_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cuda_line_figures {
	double calls, total_ns, bytes;
};

struct cuda_line_share {
	uint32_t group;                /* of lines that have their calls together: an API */
	struct cuda_line_figures all;  /* what it stands for; 0 calls: it is not one */
	struct cuda_line_figures seen; /* the calls whose stacks were taken */
	bool lacks;                    /* out: a few calls of the group have no stack, and may be its own */
};

/*
 * Bounds of what a line may come to: no less than what was seen of it; for the part that stands for others so many
 * times what it was; and so many standard deviations off. If more is missing than chance takes from the stacks, it
 * belongs to lines that are not here, and is left missing.
 */
#define CUDA_LINE_TOTALS_MOST   4.0
#define CUDA_LINE_TOTALS_SIGMAS 4.0
#define CUDA_LINE_TOTALS_FEW    4.0 /* calls, or a tenth: more are of lines that are not here */

/*
 * counted: the calls of each group, of the same time as the lines; of a group without any the lines stay as they are.
 * A group that has calls and no line stays without. -ENOMEM.
 */
int cuda_line_totals__apply(struct cuda_line_share *lines, size_t n, const struct cuda_line_figures *counted,
			    size_t n_groups);

/* What a part of a line's figure is when the figure has become another: its share stays, and it is no more than all. */
double cuda_line_totals__part(double part, double before, double after);

#endif
