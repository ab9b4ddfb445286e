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
#define LEAST_FREEDOM    2.0
/* A half that grows by less than this part of the whole's slope does not grow. */
#define HALF_SHARE 0.25
/* What came once is so many times as large as what the rest of the time varies by: chance alone has no such step. */
#define STEP_RANGES 3

struct point {
	double seconds, own, file, shared;
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

/*
 * The correlation of neighbours, of residuals whose own is r. A line takes some of it away: r is too small by
 * (2 + 4 × correlation) / n (Marriott and Pope 1954, Kendall 1954, for a line instead of a mean).
 */
static double correlation_of(double r, size_t n)
{
	double corrected = n > 4 ? ((double)n * r + 2) / ((double)n - 4) : r;

	return corrected < 0 ? 0 : corrected > MOST_CORRELATION ? MOST_CORRELATION : corrected;
}

/*
 * Least squares; n ≥ 1. freedom 0: the error is not known. Neighbours that resemble each other are worth fewer
 * points, both for the error and for how well the error itself is known.
 */
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
	r = squares > 0 ? correlation_of(products / squares, n) : 0;
	line.error = sqrt(squares / ((double)n - 2) / xx * (1 + r) / (1 - r));
	line.freedom = fmax(((double)n - 2) * (1 - r) / (1 + r), LEAST_FREEDOM);
	return line;
}

enum column { OWN, FILES, SHARED };

static double value_of(const struct point *p, enum column column)
{
	return column == OWN ? p->own : column == FILES ? p->file : p->shared;
}

/* Means of blocks of the points from `first` to `end`; how many there are. */
static size_t take_blocks(const struct point *points, size_t first, size_t end, enum column column, double x[BLOCKS],
			  double y[BLOCKS])
{
	size_t n = end - first, blocks = n < BLOCKS ? n : BLOCKS;

	for (size_t block = 0; block < blocks; block++) {
		size_t from = first + n * block / blocks, to = first + n * (block + 1) / blocks;

		x[block] = y[block] = 0;
		for (size_t i = from; i < to; i++) {
			x[block] += points[i].seconds / (double)(to - from);
			y[block] += value_of(&points[i], column) / (double)(to - from);
		}
	}
	return blocks;
}

static struct line fit_points(const struct point *points, size_t first, size_t end, enum column column)
{
	double x[BLOCKS], y[BLOCKS];
	size_t blocks = take_blocks(points, first, end, column, x, y);

	return fit(x, y, blocks);
}

static double range_of(const struct point *points, size_t first, size_t end, enum column column)
{
	double x[BLOCKS], y[BLOCKS], least, most;
	size_t blocks = take_blocks(points, first, end, column, x, y);

	least = most = y[0];
	for (size_t i = 1; i < blocks; i++) {
		least = fmin(least, y[i]);
		most = fmax(most, y[i]);
	}
	return most - least;
}

/* In either half by a part of the whole's slope at least. */
static bool in_both_halves(const struct growth_kind *g)
{
	return g->early / g->rate >= HALF_SHARE && g->late / g->rate >= HALF_SHARE;
}

static enum growth_verdict judge(const struct growth_kind *g, double seconds)
{
	if (fabs(g->rate) < GROWTH_LEAST_BYTES / seconds)
		return GROWTH_NONE;
	if (g->rate < 0)
		return g->high < 0 && in_both_halves(g) ? GROWTH_SHRINKS : GROWTH_NONE;
	if (in_both_halves(g))
		return g->low > 0 ? GROWTH_STEADY : GROWTH_NONE;
	/* Growth that came once has residuals that make the interval a wide one. */
	return g->early > g->rate && g->late < HALF_SHARE * g->rate &&
			       g->last - g->first > fmax(GROWTH_LEAST_BYTES, STEP_RANGES * g->later_range)
		       ? GROWTH_ONCE
		       : GROWTH_NONE;
}

static struct growth_kind read_kind(const struct point *points, size_t n, enum column column)
{
	struct growth_kind kind = { .first = value_of(&points[0], column), .last = value_of(&points[n - 1], column) };
	double seconds = points[n - 1].seconds - points[0].seconds, reach;
	struct line line;

	if (n < GROWTH_LEAST_POINTS || !(seconds > 0))
		return kind;
	line = fit_points(points, 0, n, column);
	reach = student_quantile(0.025, line.freedom) * line.error;
	kind.rate = line.slope;
	kind.low = line.slope - reach;
	kind.high = line.slope + reach;
	kind.early = fit_points(points, 0, n / 2, column).slope;
	kind.late = fit_points(points, n / 2, n, column).slope;
	kind.later_range = range_of(points, n / 2, n, column);
	kind.verdict = judge(&kind, seconds);
	return kind;
}

int growth__read(const char *series, struct growth *out, struct so_error *err)
{
	_cleanup_free_ struct point *points = NULL;
	size_t n;
	int ret = read_points(series, &points, &n, err);

	if (ret)
		return ret;
	*out = (struct growth){ .points = n };
	if (!n)
		return 0;
	out->seconds = points[n - 1].seconds - points[0].seconds;
	out->own = read_kind(points, n, OWN);
	out->files = read_kind(points, n, FILES);
	out->shared = read_kind(points, n, SHARED);
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
