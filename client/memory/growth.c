// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/growth.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/statistics.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"

#define KIB         1024.0
#define MOST_DIGITS 15
/* Points are put together into so many blocks: what neighbours share would make the interval too narrow. */
#define BLOCKS 20
/* Of neighbouring blocks' residuals; beyond, time and chance cannot be told apart. */
#define MOST_CORRELATION 0.9
/* A half that grows by less than this part of the whole's slope does not grow. */
#define HALF_SHARE 0.25

struct point {
	double seconds, private, file, shared;
};

struct line {
	double slope, error; /* error: its standard error */
	double freedom;
};

/* Whole, and of so few digits that no sum of squares is out of range. */
static bool read_number(const char **at, char end, double *out)
{
	size_t digits = strspn(*at, "0123456789");
	char after = (*at)[digits];

	if (!digits || digits > MOST_DIGITS || (after != end && !(end == ',' && !after)))
		return false;
	*out = strtod(*at, NULL);
	*at += digits + (after != '\0');
	return true;
}

static int read_points(const char *series, struct point **out, size_t *n, struct so_error *err)
{
	_cleanup_free_ struct point *points = NULL;
	size_t capacity = 0;

	*n = 0;
	while (*series) {
		double ms, anonymous, file, shared, swapped;

		if (!read_number(&series, ':', &ms) || !read_number(&series, ':', &anonymous) ||
		    !read_number(&series, ':', &file) || !read_number(&series, ':', &shared) ||
		    !read_number(&series, ',', &swapped))
			return so_err(err, -EINVAL, "the profile is damaged: its series of resident memory is none");
		if (ARRAY_RESERVE(points, capacity, *n + 1))
			return so_err(err, -ENOMEM, "out of memory");
		points[(*n)++] = (struct point){ ms / 1e3, (anonymous + swapped) * KIB, file * KIB, shared * KIB };
	}
	*out = TAKE_PTR(points);
	return 0;
}

/* Least squares; n ≥ 1. freedom 0: the error is not known. */
static struct line fit(const double *x, const double *y, size_t n)
{
	double mean_x = 0, mean_y = 0, xx = 0, xy = 0, squares = 0, products = 0, before = 0, r;
	struct line line = { 0 };

	for (size_t i = 0; i < n; i++) {
		mean_x += x[i] / (double)n;
		mean_y += y[i] / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		xx += (x[i] - mean_x) * (x[i] - mean_x);
		xy += (x[i] - mean_x) * (y[i] - mean_y);
	}
	if (!(xx > 0))
		return line;
	line.slope = xy / xx;
	for (size_t i = 0; i < n; i++) {
		double residual = y[i] - mean_y - line.slope * (x[i] - mean_x);

		squares += residual * residual;
		products += i ? residual * before : 0;
		before = residual;
	}
	if (n < 3)
		return line;
	line.freedom = (double)n - 2;
	line.error = sqrt(squares / line.freedom / xx);
	/* Neighbours that resemble each other: as in client/diff/statistics.c, inflation(). */
	r = squares > 0 ? products / squares : 0;
	r += squares > 0 ? (1 + 4 * r) / (double)n : 0;
	r = r > MOST_CORRELATION ? MOST_CORRELATION : r;
	if (r > 0)
		line.error *= sqrt((1 + r) / (1 - r));
	return line;
}

enum column { PRIVATE, FILES, SHARED };

static double value_of(const struct point *p, enum column column)
{
	return column == PRIVATE ? p->private : column == FILES ? p->file : p->shared;
}

/* Of means of blocks of the points from `first` to `end`. */
static struct line fit_points(const struct point *points, size_t first, size_t end, enum column column)
{
	size_t n = end - first, blocks = n < BLOCKS ? n : BLOCKS;
	double x[BLOCKS] = { 0 }, y[BLOCKS] = { 0 };

	for (size_t block = 0; block < blocks; block++) {
		size_t from = first + n * block / blocks, to = first + n * (block + 1) / blocks;

		for (size_t i = from; i < to; i++) {
			x[block] += points[i].seconds / (double)(to - from);
			y[block] += value_of(&points[i], column) / (double)(to - from);
		}
	}
	return fit(x, y, blocks);
}

/* In either half by a part of the whole's slope at least. */
static bool in_both_halves(const struct growth *g)
{
	return g->early / g->rate >= HALF_SHARE && g->late / g->rate >= HALF_SHARE;
}

static enum growth_verdict judge(const struct growth *g)
{
	double least = GROWTH_LEAST_BYTES / g->seconds;

	if (g->points < GROWTH_LEAST_POINTS)
		return GROWTH_UNKNOWN;
	if (fabs(g->rate) < least)
		return GROWTH_NONE;
	if (g->rate < 0)
		return g->high < 0 && in_both_halves(g) ? GROWTH_SHRINKS : GROWTH_NONE;
	if (in_both_halves(g))
		return g->low > 0 ? GROWTH_STEADY : GROWTH_NONE;
	/* Growth that came once has residuals that make the interval a wide one. */
	return g->early > g->rate && g->late < HALF_SHARE * g->rate && g->last - g->first > GROWTH_LEAST_BYTES
		       ? GROWTH_ONCE
		       : GROWTH_NONE;
}

int growth__read(const char *series, struct growth *out, struct so_error *err)
{
	_cleanup_free_ struct point *points = NULL;
	struct growth g = { 0 };
	struct line line;
	double t;
	int ret = read_points(series, &points, &g.points, err);

	if (ret)
		return ret;
	if (g.points) {
		g.first = points[0].private;
		g.last = points[g.points - 1].private;
		g.file = points[g.points - 1].file;
		g.shared = points[g.points - 1].shared;
		g.seconds = points[g.points - 1].seconds - points[0].seconds;
	}
	if (g.points >= GROWTH_LEAST_POINTS && g.seconds > 0) {
		line = fit_points(points, 0, g.points, PRIVATE);
		t = student_quantile(0.025, line.freedom);
		g.rate = line.slope;
		g.low = line.slope - t * line.error;
		g.high = line.slope + t * line.error;
		g.early = fit_points(points, 0, g.points / 2, PRIVATE).slope;
		g.late = fit_points(points, g.points / 2, g.points, PRIVATE).slope;
		g.file_rate = fit_points(points, 0, g.points, FILES).slope;
		g.shared_rate = fit_points(points, 0, g.points, SHARED).slope;
		g.verdict = judge(&g);
	}
	*out = g;
	return 0;
}

const char *growth__word(enum growth_verdict verdict)
{
	static const char *const words[] = {
		[GROWTH_UNKNOWN] = "not known", [GROWTH_NONE] = "not growing",  [GROWTH_ONCE] = "grew once",
		[GROWTH_STEADY] = "growing",    [GROWTH_SHRINKS] = "shrinking",
	};

	return words[verdict];
}
