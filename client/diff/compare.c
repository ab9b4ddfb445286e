// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/compare_estimate.h"
#include "client/diff/match.h"

#define EXAMPLE_SHARE 0.05
#define WHOLE         0.995 /* of all */
#define LEAST_RUNS    3     /* of a side, for a variance from run to run */

static const struct {
	const char *name, *words;
} units[COMPARE_UNITS] = {
#define X(id, name, words) [COMPARE_##id] = { name, words },
	COMPARE_UNIT_LIST(X)
#undef X
};

const char *compare_unit__name(enum compare_unit unit)
{
	return units[unit].name;
}

const char *compare_unit__words(enum compare_unit unit)
{
	return units[unit].words;
}

enum compare_unit compare_unit__find(const char *name)
{
	enum compare_unit unit = 0;

	while (unit < COMPARE_UNITS && strcmp(units[unit].name, name))
		unit++;
	return unit;
}

void compare__free(struct comparison *c)
{
	if (c)
		free(c->rows);
	free(c);
}

/* What is compared with what. */

static int refuse_unit(enum compare_unit unit, const struct side *base, const struct side *now, struct so_error *err)
{
	const char *which = base->steps > 0 ? "the new side" : now->steps > 0 ? "the base" : "neither side";

	if (unit == COMPARE_STEP && !(base->steps > 0 && now->steps > 0))
		return so_err(err, -EINVAL,
			      "--per step: %s knows %ssteps: record both with 'stakeout record --timeline --step "
			      "FUNCTION'",
			      which, which[0] == 'n' ? "" : "no ");
	if (unit == COMPARE_SECOND && !(base->wall_ns > 0 && now->wall_ns > 0))
		return so_err(err, -EINVAL, "--per second: a profile does not say how long it took");
	if (unit == COMPARE_RUN && !(base->wall_ns > 0 && now->wall_ns > 0))
		return so_err(err, -EINVAL, "--per run: a profile does not say how long it took");
	return 0;
}

static const char *measure_words(const struct side *side)
{
	return side->measure == SIDE_CPU ? "CPU time" : side->measure == SIDE_WALL ? "wall time" : side->value;
}

static int check_alike(const struct side *base, const struct side *now, struct so_error *err)
{
	if (base->measure != now->measure || strcmp(base->value, now->value))
		return so_err(err, -EINVAL, "the base has %s and the new side %s: record both in the same way",
			      measure_words(base), measure_words(now));
	if (strcmp(base->event, now->event))
		return so_err(err, -EINVAL, "the sides are of different events: %s and %s",
			      *base->event ? base->event : "samples", *now->event ? now->event : "samples");
	return 0;
}

static void choose_blocks(struct comparison *c)
{
	const struct side *sides[2] = { c->base, c->now };

	for (size_t i = 0; i < 2; i++) {
		if (sides[i]->n_runs >= LEAST_RUNS)
			c->blocks[i] = COMPARE_RUNS;
		else if (sides[!i]->n_runs >= LEAST_RUNS)
			c->blocks[i] = COMPARE_BORROWED;
		else
			c->blocks[i] = sides[i]->in_time ? COMPARE_TIME : COMPARE_COUNTS;
	}
}

/* Rows. */

static int compare_row(const struct comparison *c, uint32_t base, uint32_t now, struct compared *out)
{
	const struct side_row *b = base == MATCH_NONE ? NULL : &c->base->rows[base],
			      *n = now == MATCH_NONE ? NULL : &c->now->rows[now], *any = b ?: n;
	const struct figure figures[2] = {
		{ c->base, b ? side__cells(c->base, base) : NULL, b, c->unit },
		{ c->now, n ? side__cells(c->now, now) : NULL, n, c->unit },
	};
	int ret;

	*out = (struct compared){ .kind = any->kind,
				  .text = any->text,
				  .text_now = n ? n->text : NULL,
				  .line = b ? b->line : 0,
				  .line_now = n ? n->line : 0,
				  .in_base = b && b->amount > 0,
				  .in_now = n && n->amount > 0,
				  .q = 1 };
	if (b) {
		out->share_base = b->amount / c->base->all.amount;
		out->observations += b->observations;
	}
	if (n) {
		out->share_now = n->amount / c->now->all.amount;
		out->observations += n->observations;
	}
	ret = compare_estimate__both(c, figures, out);
	/*
	 * A row that a baseline had to leave out is not new. One that has all of the time on both sides varies in
	 * neither, and cannot differ.
	 */
	out->tested = out->observations >= COMPARE_LEAST_SAMPLES && (b || out->share_now > 2 * c->base->left_out) &&
		      (out->base.variance > 0 || out->now.variance > 0 || out->base.value != out->now.value);
	return ret;
}

static int compare_rows(struct comparison *c, const uint32_t *match)
{
	_cleanup_free_ uint32_t *now_of = malloc((c->base->n + 1) * sizeof(*now_of));
	int ret = 0;

	c->rows = calloc(c->base->n + c->now->n + 1, sizeof(*c->rows));
	if (!now_of || !c->rows)
		return -ENOMEM;
	memset(now_of, 0xff, (c->base->n + 1) * sizeof(*now_of));
	for (uint32_t i = 0; i < c->now->n; i++)
		if (match[i] != MATCH_NONE)
			now_of[match[i]] = i;
	for (uint32_t i = 0; !ret && i < c->base->n; i++)
		ret = compare_row(c, i, now_of[i], &c->rows[c->n++]);
	for (uint32_t i = 0; !ret && i < c->now->n; i++)
		if (match[i] == MATCH_NONE)
			ret = compare_row(c, MATCH_NONE, i, &c->rows[c->n++]);
	return ret;
}

/* main() and what calls it: they are the total once more. */
static bool is_whole(const struct compared *row)
{
	return row->kind == ROW_INCLUSIVE && row->share_base >= WHOLE && row->share_now >= WHOLE;
}

/* And what lies outside of the time that counts. */
static void drop_rows(struct comparison *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if ((c->rows[i].in_base || c->rows[i].in_now) && !is_whole(&c->rows[i]))
			c->rows[n++] = c->rows[i];
	c->n = n;
}

static int correct(struct comparison *c)
{
	_cleanup_free_ double *p = calloc(2 * c->n + 1, sizeof(*p));
	size_t n = 0;
	int ret;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		if (c->rows[i].tested)
			p[n++] = c->rows[i].change.p;
	c->n_tested = n;
	ret = false_discovery_rates(p, n, p + c->n);
	if (ret)
		return ret;
	n = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (!c->rows[i].tested)
			continue;
		c->rows[i].q = p[c->n + n++];
		c->rows[i].significant = c->rows[i].q <= STATISTICS_ALPHA;
		c->n_significant += c->rows[i].significant;
	}
	return 0;
}

static double moved(const struct compared *row)
{
	return fabs(row->now.value - row->base.value);
}

static int by_importance(const void *a, const void *b)
{
	const struct compared *x = a, *y = b;
	double size_x = x->base.value + x->now.value, size_y = y->base.value + y->now.value;

	if (x->significant != y->significant)
		return x->significant ? -1 : 1;
	if (x->significant && moved(x) != moved(y))
		return moved(x) < moved(y) ? 1 : -1;
	if (size_x != size_y)
		return size_x < size_y ? 1 : -1;
	return strcmp(x->text, y->text);
}

/* A single further row is found at the level that the correction leaves to it. */
static void find_smallest(struct comparison *c)
{
	double alpha = STATISTICS_ALPHA * (double)(c->n_significant + 1) / (double)(c->n_tested ?: 1);

	alpha = alpha < STATISTICS_ALPHA ? alpha : STATISTICS_ALPHA;

	for (size_t i = 0; i < c->n; i++)
		if (c->rows[i].tested)
			c->rows[i].change.smallest = change__smallest(&c->rows[i].base, &c->rows[i].now, alpha);
}

/* The whole. */

/* Blocks of a figure that is not made of rows: the time itself. */
static double *time_cells(const struct side *side, enum compare_unit unit)
{
	double *cells = calloc(side->n_blocks, sizeof(*cells));

	for (size_t i = 0; cells && i < side->n_blocks; i++)
		cells[i] = unit == COMPARE_STEP ? side->blocks[i].step_ns : side->blocks[i].wall_ns;
	return cells;
}

static double *amount_cells(const struct side *side)
{
	double *cells = calloc(side->n_blocks, sizeof(*cells));

	for (size_t i = 0; cells && i < side->n_blocks; i++)
		cells[i] = side->blocks[i].amount;
	return cells;
}

static bool varies(const struct comparison *c, size_t side)
{
	return c->blocks[side] == COMPARE_RUNS || c->blocks[side] == COMPARE_BORROWED ||
	       (c->blocks[side] == COMPARE_TIME && c->unit != COMPARE_RUN);
}

/* row: of counts, or NULL. */
static int compare_whole(const struct comparison *c, double *base, double *now, bool of_samples, struct compared *out)
{
	const struct figure figures[2] = {
		{ c->base, base, of_samples ? &c->base->all : NULL, c->unit },
		{ c->now, now, of_samples ? &c->now->all : NULL, c->unit },
	};
	int ret;

	*out = (struct compared){ .text = "total", .in_base = true, .in_now = true, .q = 1 };
	if (!base || !now)
		return -ENOMEM;
	ret = compare_estimate__both(c, figures, out);
	out->change.smallest = change__smallest(&out->base, &out->now, COMPARE_VERDICT_ALPHA);
	out->tested = of_samples || (varies(c, 0) && varies(c, 1));
	out->significant = out->tested && out->change.p <= COMPARE_VERDICT_ALPHA;
	return ret;
}

static int compare_total(struct comparison *c)
{
	_cleanup_free_ double *time_base = time_cells(c->base, c->unit), *time_now = time_cells(c->now, c->unit),
			      *base = amount_cells(c->base), *now = amount_cells(c->now);
	int ret;

	if (c->unit == COMPARE_SHARE)
		return 0;
	if (c->unit == COMPARE_SECOND)
		return compare_whole(c, base, now, true, &c->total);
	ret = compare_whole(c, time_base, time_now, false, &c->total);
	return ret ?: compare_whole(c, base, now, true, &c->amount);
}

/* A line says more than a function, and a category more than either where no line is known. */
static void choose_leading(struct comparison *c)
{
	static const enum row_kind order[] = {
		ROW_LINE, ROW_CATEGORY, ROW_FUNCTION, ROW_PHASE, ROW_CUDA, ROW_INCLUSIVE
	};

	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]) && !c->leading; k++)
		for (size_t i = 0; i < c->n_significant && !c->leading; i++)
			if (c->rows[i].kind == order[k])
				c->leading = &c->rows[i];
	for (size_t i = 0; i < c->n_significant && !c->category; i++)
		if (c->rows[i].kind == ROW_CATEGORY)
			c->category = &c->rows[i];
}

static void choose_example(struct comparison *c)
{
	double nearest = INFINITY;

	for (size_t i = 0; i < c->n; i++) {
		const struct compared *row = &c->rows[i];
		double far = fabs(log(row->share_base / EXAMPLE_SHARE));

		if (row->kind != ROW_FUNCTION || !row->tested || !row->in_base || row->share_base > 0.5 ||
		    far >= nearest)
			continue;
		nearest = far;
		c->example = row;
	}
}

static void judge(struct comparison *c)
{
	if (c->unit == COMPARE_SHARE)
		c->verdict = c->n_significant ? VERDICT_DIFFERENT : VERDICT_NONE;
	else if (c->total.significant)
		c->verdict = c->total.change.percent > 0 ? VERDICT_SLOWER : VERDICT_FASTER;
	else
		c->verdict = VERDICT_NONE;
}

static int compare_all(struct comparison *c)
{
	_cleanup_free_ uint32_t *match = match__rows(c->base, c->now);
	int ret = match ? compare_rows(c, match) : -ENOMEM;

	ret = ret ?: compare_total(c);
	if (ret)
		return ret;
	drop_rows(c);
	ret = correct(c);
	find_smallest(c);
	qsort(c->rows, c->n, sizeof(*c->rows), by_importance);
	choose_leading(c);
	choose_example(c);
	judge(c);
	return ret;
}

int compare__new(const struct side *base, const struct side *now, enum compare_unit unit, struct comparison **out,
		 struct so_error *err)
{
	_cleanup_(comparison) struct comparison *c = calloc(1, sizeof(*c));
	int ret = c ? check_alike(base, now, err) : so_err(err, -ENOMEM, "out of memory");

	if (!ret && unit == COMPARE_UNITS)
		unit = base->steps > 0 && now->steps > 0 ? COMPARE_STEP : COMPARE_SHARE;
	ret = ret ?: refuse_unit(unit, base, now, err);
	if (ret)
		return ret;
	c->base = base;
	c->now = now;
	c->unit = unit;
	choose_blocks(c);
	if (compare_all(c))
		return so_err(err, -ENOMEM, "out of memory");
	*out = TAKE_PTR(c);
	return 0;
}
