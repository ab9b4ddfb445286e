// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/compare_estimate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define FEW_SAMPLES 20 /* of a row on one side */

static double divisor(const struct figure *f, size_t block)
{
	const struct side_block *b = &f->side->blocks[block];

	switch (f->unit) {
	case COMPARE_STEP:
		return b->steps;
	case COMPARE_SECOND:
		return b->wall_ns;
	case COMPARE_SHARE:
		return b->amount;
	default:
		/* Its part of the run: as long as it is, so that the parts of a run add up to 1. */
		return b->wall_ns / f->side->wall_ns * f->side->n_runs;
	}
}

/* Each sample as a block of its own: .design/comparison.md. */
static struct estimate of_counts(const struct figure *f, double x, double w)
{
	struct estimate e = { .value = x / w, .freedom = INFINITY };

	if (f->row && f->unit == COMPARE_SHARE)
		e.variance = (f->row->squares * (1 - e.value) * (1 - e.value) +
			      (f->side->all.squares - f->row->squares) * e.value * e.value) /
			     (w * w);
	else if (f->row)
		e.variance = f->row->squares / (w * w);
	return e;
}

/* Over all blocks, as far as they count. */
static double sum_of_cells(const struct figure *f)
{
	double x = 0;

	for (size_t i = 0; i < f->side->n_blocks; i++)
		x += f->cells[i];
	return x;
}

static double sum_of_divisors(const struct figure *f)
{
	double w = 0;

	for (size_t i = 0; i < f->side->n_blocks; i++)
		w += divisor(f, i);
	return w;
}

static int of_blocks(const struct figure *f, bool by_run, struct estimate *out)
{
	size_t n = by_run ? f->side->n_runs : f->side->n_blocks;
	_cleanup_free_ double *sums = calloc(2 * n, sizeof(*sums));

	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < f->side->n_blocks; i++) {
		size_t at = by_run ? f->side->blocks[i].run : i;

		sums[at] += f->cells[i];
		/* A run is one run, however long it took. */
		sums[n + at] = f->unit == COMPARE_RUN && by_run ? 1 : sums[n + at] + divisor(f, i);
	}
	*out = n > 1 ? estimate__of_blocks(sums, sums + n, n, !by_run) : (struct estimate){ .variance = 0 };
	return 0;
}

static int estimate(const struct figure *f, enum compare_blocks blocks, struct estimate *out)
{
	bool by_run = blocks == COMPARE_RUNS, in_blocks = by_run || (blocks != COMPARE_COUNTS && f->side->in_time);
	int ret = 0;

	*out = (struct estimate){ .freedom = INFINITY };
	if (!f->cells)
		return 0;
	if (in_blocks)
		ret = of_blocks(f, by_run, out);
	/* Equal blocks of few samples are chance. */
	if (!ret && !(out->variance > 0))
		*out = of_counts(f, sum_of_cells(f), sum_of_divisors(f));
	return ret;
}

/* The one run varies as those of the other side do, in proportion; no less than its own blocks say. */
static void borrow(struct estimate *e, const struct side *side, const struct estimate *from, const struct side *other)
{
	double run = from->value > 0 ? from->variance / (from->value * from->value) * other->n_runs : 0;
	double borrowed = run * e->value * e->value / side->n_runs;

	if (borrowed > e->variance) {
		e->variance = borrowed;
		e->freedom = from->freedom;
	}
}

/*
 * Few samples, or none, say little of their variance: it is no less than what the number of samples would have that
 * both sides together let expect. Else what 999 Hz see 20 times, and 99 Hz by chance never, would be new.
 */
static void raise_of_few(const struct figure figures[2], struct estimate *estimates[2])
{
	double exposure[2]; /* the divisor in samples: each side counts by what it could have seen */
	double together;

	for (size_t i = 0; i < 2; i++)
		exposure[i] =
			sum_of_divisors(&figures[i]) * figures[i].side->all.observations / figures[i].side->all.amount;
	together =
		(estimates[0]->value * exposure[0] + estimates[1]->value * exposure[1]) / (exposure[0] + exposure[1]);
	for (size_t i = 0; i < 2; i++) {
		double expected = together / exposure[i];

		if ((figures[i].row ? figures[i].row->observations : 0) < FEW_SAMPLES &&
		    expected > estimates[i]->variance)
			estimates[i]->variance = expected;
	}
}

int compare_estimate__both(const struct comparison *c, const struct figure figures[2], struct compared *row)
{
	struct estimate *estimates[2] = { &row->base, &row->now };
	int ret = estimate(&figures[0], c->blocks[0], &row->base);

	ret = ret ?: estimate(&figures[1], c->blocks[1], &row->now);
	if (ret)
		return ret;
	/* Not of figures that are no samples. */
	if ((figures[0].row || !figures[0].cells) && (figures[1].row || !figures[1].cells))
		raise_of_few(figures, estimates);
	if (c->blocks[0] == COMPARE_BORROWED)
		borrow(&row->base, c->base, &row->now, c->now);
	if (c->blocks[1] == COMPARE_BORROWED)
		borrow(&row->now, c->now, &row->base, c->base);
	row->change = change__between(&row->base, &row->now);
	return 0;
}
