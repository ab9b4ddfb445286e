// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The lines of one function on both sides. Each line of the base is given a distance by which it moved: the sequence of
 * distances under which most of the function's time meets, less CHANGE for each place where the distance changes, by
 * dynamic programming over the base's lines.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/match.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"

#define CHANGE     0.05    /* of the function's time, on the side that has less of it */
#define DISTANCES  9       /* that are tried: none, and those under which most time meets */
#define MOST_PAIRS 4000000 /* of lines; a larger function's lines are taken to be where they were */

struct lines {
	const struct line_amount *list;
	size_t n;
	double total;
};

struct distance {
	int64_t lines;
	double meets; /* the share of time under it alone */
};

static struct lines lines_of(const struct line_amount *list, size_t n)
{
	struct lines l = { list, n, 0 };

	for (size_t i = 0; i < n; i++)
		l.total += list[i].amount;
	return l;
}

/* SIZE_MAX: there is none at that distance of the line. */
static size_t find(const struct lines *l, int64_t line, int64_t distance)
{
	size_t at;

	if (__builtin_add_overflow(line, distance, &line))
		return SIZE_MAX;
	at = ARRAY_BEFORE(i, l->n, l->list[i].line < line);
	return at < l->n && l->list[at].line == line ? at : SIZE_MAX;
}

/* What a line of the base and the new one at that distance have in common, of all that could meet. */
static double meets(const struct lines *base, size_t i, const struct lines *now, int64_t distance)
{
	size_t at = find(now, base->list[i].line, distance);
	double a = base->list[i].amount, b = at == SIZE_MAX ? 0 : now->list[at].amount;

	return (a < b ? a : b) / (base->total < now->total ? base->total : now->total);
}

static int by_lines(const void *a, const void *b)
{
	const struct distance *x = a, *y = b;

	return (x->lines > y->lines) - (x->lines < y->lines);
}

static int by_meeting(const void *a, const void *b)
{
	const struct distance *x = a, *y = b;

	if (x->meets != y->meets)
		return x->meets < y->meets ? 1 : -1;
	return by_lines(a, b);
}

/* The distances between any two lines under which most time meets, and 0, which is first. Returns how many. */
static size_t choose_distances(const struct lines *base, const struct lines *now, struct distance *all,
			       int64_t out[DISTANCES])
{
	size_t n = 0, pairs = 0, chosen = 1;

	for (size_t i = 0; i < base->n; i++)
		for (size_t j = 0; j < now->n; j++) {
			int64_t distance = now->list[j].line - base->list[i].line;

			all[pairs++] = (struct distance){ distance, meets(base, i, now, distance) };
		}
	qsort(all, pairs, sizeof(*all), by_lines);
	for (size_t i = 0; i < pairs; i++) {
		if (n && all[n - 1].lines == all[i].lines)
			all[n - 1].meets += all[i].meets;
		else
			all[n++] = all[i];
	}
	qsort(all, n, sizeof(*all), by_meeting);
	out[0] = 0;
	for (size_t i = 0; i < n && chosen < DISTANCES; i++)
		if (all[i].lines)
			out[chosen++] = all[i].lines;
	return chosen;
}

/* The best sequence of distances up to a line, if that one has this distance. */
struct step {
	double score;
	double meets;   /* what of the score is this line's */
	uint8_t before; /* the distance of the line before */
};

/* gap: lines from the one before. Where this one moves to its place, or above it, that one was taken out. */
static void advance(const struct step *last, struct step *next, const int64_t *distances, size_t n, size_t to,
		    int64_t gap)
{
	double best = -INFINITY;

	for (size_t k = 0; k < n; k++) {
		bool taken_out = (double)distances[k] - (double)distances[to] >= (double)gap;
		double score = last[k].score - (k == to ? 0 : CHANGE) - (taken_out ? last[k].meets : 0);

		if (score <= best)
			continue;
		best = score;
		next->before = (uint8_t)k;
	}
	next->score = best + next->meets;
}

static void take_distances(const struct lines *base, const struct lines *now, const struct step *steps,
			   const int64_t *distances, size_t n, uint32_t *out)
{
	const struct step *last = steps + base->n * DISTANCES;
	size_t k = 0, above = SIZE_MAX;

	for (size_t i = 1; i < n; i++)
		k = last[i].score > last[k].score ? i : k;
	for (size_t i = base->n; i-- > 0;) {
		size_t at = find(now, base->list[i].line, distances[k]);

		/* From the last line back: what was taken out has no place above its follower. */
		if (at != SIZE_MAX && at < above) {
			out[at] = (uint32_t)i;
			above = at;
		}
		k = steps[(i + 1) * DISTANCES + k].before;
	}
}

static int align(const struct lines *base, const struct lines *now, uint32_t *out)
{
	_cleanup_free_ struct distance *all = calloc(base->n * now->n, sizeof(*all));
	_cleanup_free_ struct step *steps = calloc((base->n + 1) * DISTANCES, sizeof(*steps));
	int64_t distances[DISTANCES];
	size_t n;

	if (!all || !steps)
		return -ENOMEM;
	n = choose_distances(base, now, all, distances);
	for (size_t k = 1; k < n; k++)
		steps[k].score = -CHANGE;
	for (size_t i = 0; i < base->n; i++)
		for (size_t k = 0; k < n; k++) {
			struct step *next = &steps[(i + 1) * DISTANCES + k];

			next->meets = meets(base, i, now, distances[k]);
			advance(&steps[i * DISTANCES], next, distances, n, k,
				i ? base->list[i].line - base->list[i - 1].line : INT64_MAX);
		}
	take_distances(base, now, steps, distances, n, out);
	return 0;
}

int match__lines(const struct line_amount *base, size_t n_base, const struct line_amount *now, size_t n_now,
		 uint32_t *out)
{
	struct lines b = lines_of(base, n_base), n = lines_of(now, n_now);

	memset(out, 0xff, n_now * sizeof(*out));
	if (!(b.total > 0) || !(n.total > 0))
		return 0;
	if (n_base <= MOST_PAIRS / n_now)
		return align(&b, &n, out);
	for (size_t i = 0; i < n_now; i++) {
		size_t at = find(&b, now[i].line, 0);

		out[i] = at == SIZE_MAX ? MATCH_NONE : (uint32_t)at;
	}
	return 0;
}
