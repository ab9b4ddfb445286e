// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_kinds.h"

#include <math.h>

#define HALVED_S 4.0 /* of figures, after which they weigh half */
#define LEAST_S  1.0 /* of figures that are enough to choose anew by */
#define OUTGROWN 1.5 /* times as many as may stay: a choice is to last */
#define ENOUGH   10  /* calls that would have been seen of as many as may stay, to tell that there are fewer */

void cuda_kinds__add(struct cuda_kinds *k, const struct cuda_kind_calls *calls, uint64_t elapsed_ns,
		     uint64_t on_ns)
{
	double keep = k->elapsed_s > HALVED_S ? 0.5 : 1;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		k->calls[i] = k->calls[i] * keep + (double)calls->calls[i];
		k->ns[i] = k->ns[i] * keep + (double)calls->ns[i];
	}
	k->elapsed_s = k->elapsed_s * keep + (double)elapsed_ns * 1e-9;
	k->on_s = k->on_s * keep + (double)on_ns * 1e-9;
}

/* For how long calls of the kind were counted. */
static double seconds_of(const struct cuda_kinds *k, unsigned kind)
{
	return k->cycled >> kind & 1 ? k->on_s : k->elapsed_s;
}

static double rate(const struct cuda_kinds *k, unsigned kind)
{
	double seconds = seconds_of(k, kind);

	return seconds > 0 ? k->calls[kind] / seconds : 0;
}

void cuda_kinds__rates(const struct cuda_kinds *k, struct cuda_kind_calls *rates)
{
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		double seconds = seconds_of(k, i);

		rates->calls[i] = (uint64_t)(rate(k, i) * 1000);
		rates->ns[i] = seconds > 0 ? (uint64_t)(k->ns[i] / seconds * 1000) : 0;
	}
}

#define WAIT_NS 1e5 /* that calls take on average which wait, or are few: allocations, launches that load */

/*
 * What counts of a call of the kind for how many may stay. Of waits twice as many: which line waits for the GPU is what is asked most, a probe is
 * a small part of what it tells of, and waits make the estimates of the others nearer (cuda_active.h).
 */
static double weight(const struct cuda_kinds *k, unsigned kind)
{
	double each = k->calls[kind] > 0 ? k->ns[kind] / k->calls[kind] : 0;

	return 1 / (1 + fmin(each / WAIT_NS, 1));
}

static unsigned most_of(const double rates[SO_CUDA_KIND_COUNT])
{
	unsigned most = 0;

	for (unsigned i = 1; i < SO_CUDA_KIND_COUNT; i++) {
		if (rates[i] > rates[most])
			most = i;
	}
	return most;
}

/* A second, if these are switched. */
struct left {
	double calls, weight;
};

static struct left left_by(const struct cuda_kinds *k, uint32_t cycled)
{
	struct left left = { 0 };

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		left.calls += cycled >> i & 1 ? 0 : rate(k, i);
		left.weight += cycled >> i & 1 ? 0 : rate(k, i) * weight(k, i);
	}
	return left;
}

#define UNSEEN_S 0.25 /* of times on, some twenty of them, which bursts of calls are not all missed by */

/* Kinds that are switched and of which not one call was seen, in so short a time that this may be chance. */
static uint32_t unseen(const struct cuda_kinds *k)
{
	uint32_t kinds = 0;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		kinds |= k->calls[i] < 1 ? 1u << i : 0;
	return k->cycled == CUDA_KINDS_ALL || k->on_s > UNSEEN_S ? 0 : kinds & k->cycled;
}

/* 0: no calls are known. */
static uint32_t choice(const struct cuda_kinds *k, double most)
{
	double weights[SO_CUDA_KIND_COUNT], total = left_by(k, 0).calls;
	struct left left = left_by(k, 0);
	uint32_t chosen = 0;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		weights[i] = rate(k, i) * weight(k, i);
	while (left.calls * 10 > total || left.weight > most) {
		unsigned next = most_of(weights);

		if (!(weights[next] > 0))
			break;
		chosen |= 1u << next;
		weights[next] = 0;
		left = left_by(k, chosen);
	}
	if (chosen)
		chosen |= unseen(k);
	return chosen & k->together ? chosen | k->together : chosen;
}

void cuda_kinds__choose(struct cuda_kinds *k, double most)
{
	*k = (struct cuda_kinds){ .cycled = choice(k, most) ?: CUDA_KINDS_ALL, .together = k->together };
}

/* A burst at the beginning, as when a model is uploaded, is over. */
static bool are_too_many(const struct cuda_kinds *k, uint32_t best, double most)
{
	struct left left = left_by(k, best);

	return !(best & ~k->cycled) && OUTGROWN * left.calls * 10 <= left_by(k, 0).calls &&
	       OUTGROWN * left.weight <= most && k->on_s * most >= ENOUGH;
}

bool cuda_kinds__are_outgrown(const struct cuda_kinds *k, double most)
{
	uint32_t best = choice(k, most);
	struct left steady = left_by(k, k->cycled);
	uint32_t pair = k->cycled & k->together;

	return k->elapsed_s >= LEAST_S && best && best != k->cycled &&
	       (steady.calls * 4 > left_by(k, 0).calls || steady.weight > OUTGROWN * most ||
		k->cycled == CUDA_KINDS_ALL || (pair && pair != k->together) || are_too_many(k, best, most));
}
