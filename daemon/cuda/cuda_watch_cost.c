// SPDX-License-Identifier: GPL-2.0-or-later
/* What the probes of a target may cost it, and what they did. */
#include <math.h>

#include "daemon/cuda/cuda_watch.h"

#define GOAL   0.95 /* of the budget is aimed at, */
#define STACKS 0.1  /* of that for stacks */

double cuda_watch_budget(const struct cuda_watch *w)
{
	return w->budget_percent / 100 * w->cpus * 1e9;
}

double cuda_watch_allowed(const struct cuda_watch *w)
{
	return GOAL * (1 - STACKS) * cuda_watch_budget(w);
}

double cuda_watch_allowed_stacks(const struct cuda_watch *w)
{
	return GOAL * STACKS * cuda_watch_budget(w);
}

void cuda_slot__subtract(struct so_cuda_slot *slot, const struct so_cuda_slot *base)
{
	__u64 *to = (__u64 *)slot;
	const __u64 *from = (const __u64 *)base;

	for (size_t i = 0; i < CUDA_SLOT_WORDS; i++)
		to[i] -= from[i] < to[i] ? from[i] : to[i];
}

double cuda_watch_cost_of(const struct cuda_watch *w, const struct so_cuda_slot *gained)
{
	const struct cuda_prices prices = cuda_probes__prices(w->probes);
	double on = 0, nested = (double)gained->nested, counted = 0;

	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		on += (double)gained->unit_hits[i];
	if (prices.has_counted)
		counted = fmax(on - nested - (double)gained->returns, 0);
	return w->coldness * (fmax(on - nested - counted, 0) * prices.timed_ns + counted * prices.counted_ns +
			      nested * prices.nested_ns + fmax((double)gained->hits - on, 0) * prices.off_ns +
			      (double)gained->stepped * prices.stepped_ns) +
	       (double)gained->stacks_ns;
}

void cuda_watch_note_rates(struct cuda_watch *w, const struct so_cuda_slot *gained, uint32_t units, double ns,
			   double part)
{
	for (unsigned i = 0; ns > 0 && i < SO_CUDA_UNITS; i++) {
		if (!(units >> i & 1))
			continue;
		w->hits_per_s[i] += part * ((double)gained->unit_hits[i] / ns * 1e9 - w->hits_per_s[i]);
		w->nested_per_s[i] += part * ((double)gained->unit_nested[i] / ns * 1e9 - w->nested_per_s[i]);
		w->busy_per_s[i] += part * ((double)gained->unit_ns[i] / ns * 1e9 - w->busy_per_s[i]);
	}
}
