// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_line_totals.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "stakeout/cleanup.h"

#define ROUNDS 4 /* what some lines are too small to give up is asked of the others in the next */

/* A figure of a group's lines. */
struct sum {
	double all, variance;
};

/* Calls, time and bytes are shared out each for itself. */
static const size_t figures[] = {
	offsetof(struct cuda_line_figures, calls),
	offsetof(struct cuda_line_figures, total_ns),
	offsetof(struct cuda_line_figures, bytes),
};

static double get(const struct cuda_line_figures *of, size_t figure)
{
	return *(const double *)((const char *)of + figure);
}

static void set(struct cuda_line_figures *of, size_t figure, double value)
{
	*(double *)((char *)of + figure) = value;
}

/* 0: nothing of it stands for other calls. */
static double variance_of(const struct cuda_line_share *line, size_t figure)
{
	double all = get(&line->all, figure), seen = get(&line->seen, figure);

	return all > seen && line->seen.calls > 0 ? all * (all - seen) / line->seen.calls : 0;
}

/* What a line may come to. */
struct bound {
	double least, most;
};

static struct bound bound_of(const struct cuda_line_share *line, size_t figure)
{
	double all = get(&line->all, figure), seen = get(&line->seen, figure),
	       chance = CUDA_LINE_TOTALS_SIGMAS * sqrt(variance_of(line, figure));

	return (struct bound){ .least = fmax(seen, all - chance),
			       .most = fmin(seen + CUDA_LINE_TOTALS_MOST * (all - seen), all + chance) };
}

static void add_up(const struct cuda_line_share *lines, size_t n, size_t figure, struct sum *sums, size_t n_groups)
{
	for (size_t i = 0; i < n_groups; i++)
		sums[i] = (struct sum){ 0 };
	for (size_t i = 0; i < n; i++) {
		if (lines[i].group >= n_groups)
			continue;
		sums[lines[i].group].all += get(&lines[i].all, figure);
		sums[lines[i].group].variance += variance_of(&lines[i], figure);
	}
}

/* Returns whether there was anything to share out. */
static bool share_out(struct cuda_line_share *lines, size_t n, size_t figure, const struct bound *bounds,
		      const struct cuda_line_figures *counted, struct sum *sums, size_t n_groups)
{
	bool any = false;

	add_up(lines, n, figure, sums, n_groups);
	for (size_t i = 0; i < n; i++) {
		double variance = variance_of(&lines[i], figure), missing;

		if (lines[i].group >= n_groups || !(variance > 0) || !(counted[lines[i].group].calls > 0))
			continue;
		missing = get(&counted[lines[i].group], figure) - sums[lines[i].group].all;
		set(&lines[i].all, figure,
		    fmin(fmax(get(&lines[i].all, figure) + missing * (variance / sums[lines[i].group].variance),
			      bounds[i].least),
			 bounds[i].most));
		any |= fabs(missing) > 0.01;
	}
	return any;
}

/* Of groups with only their own calls' stacks and a few calls more: the factor of each figure. Of other groups 0. */
static void find_ratios(const struct cuda_line_figures *counted, const struct sum *calls, const struct sum *sums,
			size_t figure, struct cuda_line_figures *ratios, size_t n_groups)
{
	for (size_t i = 0; i < n_groups; i++) {
		double lacking = counted[i].calls - calls[i].all;

		if (calls[i].variance > 0 || !(lacking > 0.5) || !(lacking <= calls[i].all) ||
		    lacking > fmax(CUDA_LINE_TOTALS_FEW, calls[i].all / 10))
			continue;
		set(&ratios[i], figure,
		    sums[i].all > 0 ? fmin(fmax(get(&counted[i], figure) / sums[i].all, 1), CUDA_LINE_TOTALS_MOST) : 1);
	}
}

/* A line whose calls remain as many stays as it is. */
static void scale(struct cuda_line_share *line, const struct cuda_line_figures *ratio)
{
	line->lacks = ratio->calls > 0;
	if (line->lacks && line->all.calls * (ratio->calls - 1) >= 0.5)
		for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
			set(&line->all, figures[f], get(&line->all, figures[f]) * get(ratio, figures[f]));
}

int cuda_line_totals__apply(struct cuda_line_share *lines, size_t n, const struct cuda_line_figures *counted,
			    size_t n_groups)
{
	_cleanup_free_ struct bound *bounds = calloc(n + 1, sizeof(*bounds));
	_cleanup_free_ struct sum *sums = calloc(n_groups + 1, sizeof(*sums));
	_cleanup_free_ struct sum *calls = calloc(n_groups + 1, sizeof(*calls));
	_cleanup_free_ struct cuda_line_figures *ratios = calloc(n_groups + 1, sizeof(*ratios));

	if (!bounds || !sums || !calls || !ratios)
		return -ENOMEM;
	add_up(lines, n, figures[0], calls, n_groups);
	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		for (size_t i = 0; i < n; i++)
			bounds[i] = bound_of(&lines[i], figures[f]);
		for (unsigned round = 0; round < ROUNDS; round++)
			if (!share_out(lines, n, figures[f], bounds, counted, sums, n_groups))
				break;
		add_up(lines, n, figures[f], sums, n_groups);
		find_ratios(counted, calls, sums, figures[f], ratios, n_groups);
	}
	for (size_t i = 0; i < n; i++)
		if (lines[i].group < n_groups)
			scale(&lines[i], &ratios[lines[i].group]);
	return 0;
}

double cuda_line_totals__part(double part, double before, double after)
{
	return before > 0 && part > 0 ? fmin(part / before, 1) * after : 0;
}
