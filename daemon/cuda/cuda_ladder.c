// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_ladder.h"

#include <string.h>

const char *cuda_ladder__word(enum cuda_rung rung)
{
	static const char *const words[] = { "full", "counted", "windowed", "not-watched" };

	return words[rung];
}

static double cost_of(const struct cuda_ladder_unit *unit, enum cuda_rung rung)
{
	return rung == CUDA_RUNG_FULL || !unit->has_counted ? unit->full : unit->counted;
}

struct costs {
	double always, windowed;
	bool estimates; /* calls are counted in windows alone */
};

static struct costs costs_of(const struct cuda_ladder_unit *units, const enum cuda_rung *rung)
{
	struct costs costs = { 0 };

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		double cost = cost_of(&units[i], rung[i]);

		costs.always += rung[i] <= CUDA_RUNG_COUNTED ? cost : 0;
		costs.windowed += rung[i] == CUDA_RUNG_WINDOWED ? cost : 0;
		costs.estimates |= rung[i] == CUDA_RUNG_WINDOWED && cost > 0;
	}
	return costs;
}

/* The unit between these two rungs that costs most, nested calls counted double; SO_CUDA_UNITS: none costs anything. */
static unsigned dearest(const struct cuda_ladder_unit *units, const enum cuda_rung *rung, enum cuda_rung from,
			enum cuda_rung to)
{
	unsigned found = SO_CUDA_UNITS;
	double most = 0;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		double cost = cost_of(&units[i], rung[i]) * (1 + units[i].nested);

		if (rung[i] >= from && rung[i] <= to && cost > most) {
			most = cost;
			found = i;
		}
	}
	return found;
}

static enum cuda_rung below(const struct cuda_ladder_unit *unit, enum cuda_rung rung)
{
	if (unit->nested >= CUDA_LADDER_ALL_NESTED)
		return CUDA_RUNG_NOT_WATCHED;
	return rung == CUDA_RUNG_FULL && unit->has_counted ? CUDA_RUNG_COUNTED : CUDA_RUNG_WINDOWED;
}

static void choose(const struct cuda_ladder_unit *units, double allowed, enum cuda_rung *rung)
{
	struct costs costs;
	unsigned i;

	memset(rung, 0, SO_CUDA_UNITS * sizeof(*rung));
	for (;;) {
		costs = costs_of(units, rung);
		if (costs.always <= allowed * (costs.estimates ? CUDA_LADDER_ALWAYS : 1))
			break;
		i = dearest(units, rung, CUDA_RUNG_FULL, CUDA_RUNG_COUNTED);
		if (i == SO_CUDA_UNITS)
			break;
		rung[i] = below(&units[i], rung[i]);
	}
	while (costs.windowed * CUDA_LADDER_LEAST_ON > allowed - costs.always) {
		i = dearest(units, rung, CUDA_RUNG_WINDOWED, CUDA_RUNG_WINDOWED);
		if (i == SO_CUDA_UNITS)
			break;
		rung[i] = CUDA_RUNG_NOT_WATCHED;
		costs = costs_of(units, rung);
	}
}

static enum cuda_rung above(const struct cuda_ladder_unit *unit, enum cuda_rung rung)
{
	if (rung == CUDA_RUNG_NOT_WATCHED && unit->nested >= CUDA_LADDER_ALL_NESTED)
		rung = CUDA_RUNG_WINDOWED;
	return rung == CUDA_RUNG_WINDOWED && !unit->has_counted ? CUDA_RUNG_FULL : rung - 1;
}

void cuda_ladder__decide(struct cuda_ladder *ladder, const struct cuda_ladder_unit units[SO_CUDA_UNITS], double allowed,
			 double elapsed_s)
{
	enum cuda_rung now[SO_CUDA_UNITS], calm[SO_CUDA_UNITS];
	struct costs costs;

	choose(units, allowed, now);
	choose(units, allowed * CUDA_LADDER_CALM, calm);
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
		enum cuda_rung *rung = &ladder->rung[i], before = *rung;

		ladder->calm_s[i] = calm[i] < *rung ? ladder->calm_s[i] + elapsed_s : 0;
		if (now[i] > *rung)
			*rung = now[i];
		else if (ladder->calm_s[i] >= CUDA_LADDER_CALM_S)
			*rung = above(&units[i], *rung);
		if (*rung != before)
			ladder->calm_s[i] = 0;
	}
	costs = costs_of(units, ladder->rung);
	ladder->always = costs.always;
	ladder->windowed = costs.windowed;
}

uint32_t cuda_ladder__units(const struct cuda_ladder *ladder, enum cuda_rung rung)
{
	uint32_t units = 0;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		units |= ladder->rung[i] == rung ? 1u << i : 0;
	return units;
}
