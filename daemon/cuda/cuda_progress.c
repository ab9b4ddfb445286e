// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_progress.h"

#include <math.h>

#define LEAST_SLICES   4
#define LEAST_HITS     20   /* in the light slices */
#define ONE_BURST      0.05 /* a time of which so much at most was waited is taken for one burst */
#define LEAST_INSIDE   2    /* slices inside bursts */
#define LEAST_DENSE    5.0  /* hits in each: of fewer, slices without any are no end of a burst */
#define LEAST_DEARER   1.3  /* all probes are so many times as dear as light ones */
#define RATIO_ERROR    0.25 /* of k: the two costs change alike where caches are cold, and not quite */
#define MOST_DEPENDENT 0.9  /* correlation of neighbouring slices */
#define MOST_ALTERNATE \
	-0.7 /* a target whose steps are as short as slices makes up in one for what the last one had less */
#define LEAST_ERROR 0.1 /* of a comparison's factor, however sure it seems: it is of a moment */
#define MOST_ERROR  2.0 /* of one that tells anything */
#define MOST_LOSS   1.6 /* the probes cost so many times what was calibrated, in cold caches */
#define COMMON_ERROR \
	0.06 /* of the factor, in all comparisons alike: the ratio of the two costs, and how they were calibrated */
#define SCATTER_N 4.0  /* comparisons that differ as each is said to be wrong, besides those that were made */
#define KEEP      0.97 /* of the weight of earlier comparisons */

struct mean {
	double mean, variance; /* of the mean */
};

/*
 * Slices are not independent where a target has phases: with a correlation of a between neighbours, n of them tell as much as
 * n (1 - a) / (1 + a) would.
 */
static struct mean mean_of(const __u64 *hits, unsigned from, unsigned to)
{
	double n = to - from, sum = 0, squares = 0, products = 0, last = 0, mean, a;

	for (unsigned i = from; i < to; i++)
		sum += (double)hits[i];
	mean = sum / n;
	for (unsigned i = from; i < to; i++) {
		double d = (double)hits[i] - mean;

		squares += d * d;
		products += i > from ? d * last : 0;
		last = d;
	}
	a = squares > 0 ? fmin(fmax(products / squares, MOST_ALTERNATE), MOST_DEPENDENT) : 0;
	/* Of few slices chance has some alternate. */
	if (a < 0)
		a *= 1 - LEAST_SLICES / n;
	/* A hit may fall to either side of a slice's ends. */
	return (struct mean){ mean, (squares / (n - 1) + 1) / n * (1 + a) / (1 - a) };
}

/* Neither in a wait nor at its edge, as the first and the last one may be. */
static bool is_inside(const __u64 *hits, unsigned i, unsigned from, unsigned to)
{
	return i > from && i + 1 < to && hits[i - 1] && hits[i] && hits[i + 1];
}

/* Of the slices inside bursts, where the target waits between them. False: there are too few. */
static bool mean_inside(const __u64 *hits, unsigned from, unsigned to, struct mean *out)
{
	double n = 0, sum = 0, squares = 0, mean;

	for (unsigned i = from; i < to; i++) {
		n += is_inside(hits, i, from, to);
		sum += is_inside(hits, i, from, to) ? (double)hits[i] : 0;
	}
	if (n < LEAST_INSIDE)
		return false;
	mean = sum / n;
	for (unsigned i = from; i < to; i++) {
		double d = (double)hits[i] - mean;

		squares += is_inside(hits, i, from, to) ? d * d : 0;
	}
	*out = (struct mean){ mean, (squares / (n - 1) + 1) / n };
	return true;
}

static bool is_dense(const __u64 *hits, unsigned from, unsigned to)
{
	double n = 0, sum = 0;

	for (unsigned i = from; i < to; i++) {
		n += hits[i] > 0;
		sum += (double)hits[i];
	}
	return sum >= LEAST_DENSE * n;
}

static void leave_out(struct mean *mean, double away)
{
	mean->mean /= 1 - away;
	mean->variance /= (1 - away) * (1 - away);
}

/* Bursts that are shorter than slices are compared by the time that was not waited. */
static bool means_of(const struct cuda_slices *s, struct mean *light, struct mean *all)
{
	if (fmax(s->light_away, s->full_away) > ONE_BURST && is_dense(s->hits, s->light_from, s->light_to) &&
	    is_dense(s->hits, s->full_from, s->full_to) &&
	    mean_inside(s->hits, s->light_from, s->light_to, light) &&
	    mean_inside(s->hits, s->full_from, s->full_to, all))
		return true;
	*light = mean_of(s->hits, s->light_from, s->light_to);
	*all = mean_of(s->hits, s->full_from, s->full_to);
	if (light->mean * (s->light_to - s->light_from) < LEAST_HITS)
		return false;
	leave_out(light, s->light_away);
	leave_out(all, s->full_away);
	return true;
}

bool cuda_progress__compare(const struct cuda_slices *s, double light_ns, double all_ns, struct cuda_kept *out)
{
	struct mean light, all;
	double k, ratio, variance;

	if (s->light_to < s->light_from + LEAST_SLICES || s->full_to < s->full_from + LEAST_SLICES ||
	    all_ns < LEAST_DEARER * light_ns || light_ns <= 0)
		return false;
	if (!means_of(s, &light, &all))
		return false;
	k = light_ns / (all_ns - light_ns);
	ratio = all.mean / light.mean;
	variance = (all.variance + ratio * ratio * light.variance) / (light.mean * light.mean);
	out->share = ratio - k * (1 - ratio);
	out->error = hypot((1 + k) * sqrt(variance), RATIO_ERROR * k * (1 - ratio));
	return true;
}

void cuda_progress__age(struct cuda_progress *p)
{
	p->n *= KEEP;
	p->weight *= KEEP;
	p->sum *= KEEP;
	p->squares *= KEEP;
}

void cuda_progress__add(struct cuda_progress *p, const struct cuda_kept *kept, double taken)
{
	double loss, error, weight;

	if (taken <= 0)
		return;
	loss = (1 - kept->share) / taken;
	error = fmax(kept->error / taken, LEAST_ERROR);
	/* As far above the most as below nothing, or chance would count in one direction only. */
	if (error > MOST_ERROR || fabs(loss - MOST_LOSS / 2) > MOST_LOSS / 2 + 2 * error)
		return;
	weight = 1 / (error * error);
	p->n += 1;
	p->weight += weight;
	p->sum += weight * loss;
	p->squares += weight * loss * loss;
}

struct cuda_loss cuda_progress__loss(const struct cuda_progress *p, const struct cuda_loss *without)
{
	double prior = 1 / (without->error * without->error), weight = p->weight, scatter, factor, chance;

	if (p->weight <= 0)
		return (struct cuda_loss){ without->factor, without->error, without->error };
	/*
	 * Comparisons that differ by more than each is said to be wrong are worth less. Many that differ by less are worth more: slices of a
	 * target whose steps are as short as they are differ, and their sums do not.
	 */
	if (p->n > 1.5) {
		scatter = (p->squares - p->sum * p->sum / p->weight) / (p->n - 1);
		if (scatter < 1)
			scatter = (SCATTER_N + (p->n - 1) * scatter) / (SCATTER_N + p->n - 1);
		weight /= scatter;
	}
	factor = fmax((weight * p->sum / p->weight + prior * without->factor) / (weight + prior), 0);
	chance = 1 / sqrt(weight + prior);
	return (struct cuda_loss){ factor, hypot(chance, COMMON_ERROR * factor), chance };
}
