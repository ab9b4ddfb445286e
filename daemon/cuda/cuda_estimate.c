// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_estimate.h"
#include "daemon/cuda/cuda_names.h"

#define VARIANCE_KEPT 0.8 /* of what was known, for each time on */

/* What the kinds have in common has a place behind theirs. */
static bool has(uint32_t kinds, unsigned at)
{
	return at == CUDA_ESTIMATE_ALL ? kinds != 0 : kinds >> at & 1;
}

void cuda_estimates__add(struct cuda_estimates *e, const struct cuda_estimate_rates *rates,
			 const struct cuda_estimate_seen *seen)
{
	double factor = seen->factor;

	for (unsigned i = 0; i < CUDA_ESTIMATES; i++) {
		struct cuda_estimate *of = &e->of[i];
		double unseen = (factor - 1) * seen->calls[i];
		double d = seen->calls[i] - rates->of[i].calls * seen->ns;

		if (!has(seen->kinds, i))
			continue;
		of->offs++;
		of->times++;
		of->calls += unseen;
		if (rates->of[i].has_calls)
			of->variance += factor * (factor - 1) * d * d / 2;
		of->bias += seen->error * unseen;
	}
}

void cuda_estimates__add_off(struct cuda_estimates *e, const struct cuda_estimate_rates *rates,
			     const struct cuda_estimate_seen *seen, double factor)
{
	for (unsigned i = 0; i < CUDA_ESTIMATES; i++) {
		struct cuda_estimate *of = &e->of[i];

		if (!has(seen->kinds, i))
			continue;
		of->offs++;
		of->calls += factor * seen->calls[i];
		/* (seen->factor - 1 + factor)² by what was seen, less what is there already; and `factor` times by what was not. */
		of->variance +=
			factor * (factor + 2 * (seen->factor - 1) + 1) * rates->of[i].variance * seen->ns;
		of->bias += seen->error * factor * seen->calls[i];
	}
}

void cuda_estimate_rates__add(struct cuda_estimate_rates *rates, const struct cuda_estimate_seen *seen,
			      bool is_neighbour)
{
	for (unsigned i = 0; i < CUDA_ESTIMATES; i++) {
		double d = seen->calls[i] - rates->of[i].calls * seen->ns;
		double variance = d * d / 2 / seen->ns, known = rates->of[i].variance;

		if (!has(seen->kinds, i)) {
			rates->of[i].has_calls = false;
			continue;
		}
		if (rates->of[i].has_calls) {
			rates->of[i].variance +=
				(rates->of[i].has_variance ? 1 - VARIANCE_KEPT : 1) * (variance - known);
			rates->of[i].has_variance = true;
		}
		rates->of[i].calls = seen->calls[i] / seen->ns;
		rates->of[i].has_calls = is_neighbour;
	}
}

void cuda_estimate_rates__change(struct cuda_estimate_rates *rates, uint32_t kinds)
{
	for (unsigned i = 0; i < CUDA_ESTIMATES; i++) {
		rates->of[i].has_calls = false;
		if (!has(kinds, i))
			rates->of[i].has_variance = false;
		if (!rates->of[i].has_variance)
			rates->of[i].variance = 0;
	}
}

struct cuda_estimates cuda_estimates__since(const struct cuda_estimates *now, const struct cuda_estimates *base)
{
	struct cuda_estimates since;

	for (unsigned i = 0; i < CUDA_ESTIMATES; i++)
		since.of[i] = (struct cuda_estimate){ now->of[i].offs - base->of[i].offs,
						      now->of[i].times - base->of[i].times,
						      now->of[i].calls - base->of[i].calls,
						      now->of[i].variance - base->of[i].variance,
						      now->of[i].bias - base->of[i].bias };
	return since;
}

static json_t *json_of(const struct cuda_estimate *e)
{
	return json_pack("{s:I, s:I, s:f, s:f, s:f}", "times_off", (json_int_t)e->offs, "times",
			 (json_int_t)e->times, "calls", e->calls, "variance", e->variance, "bias", e->bias);
}

json_t *cuda_estimates__json(const struct cuda_estimates *e)
{
	json_t *root, *kinds = json_object();
	int ret = 0;

	if (!cuda_estimates__are_any(e)) {
		json_decref(kinds);
		return json_null();
	}
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		if (cuda_estimate__is_any(&e->of[i]))
			ret = ret ?: json_object_set_new(kinds, cuda_names__kind_word(i), json_of(&e->of[i]));
	}
	root = ret ? NULL : json_of(&e->of[CUDA_ESTIMATE_ALL]);
	if (!root || json_object_set(root, "by_kind", kinds)) {
		json_decref(root);
		root = NULL;
	}
	json_decref(kinds);
	return root;
}
