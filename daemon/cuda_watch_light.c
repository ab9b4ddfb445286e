// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Times on that begin with light probes, to see what probes take from the target that it goes without (cuda_progress.h). Light are the
 * probes of the runtime's functions, or of the driver's where it alone is called, while their kind is off: with session links the
 * return is not hit then, and the driver's probes, which nested calls run into, come later. Other links always hit the return.
 */
#include "daemon/cuda_watch_parts.h"

#define WORTH_TAKEN \
	0.03 /* CPUs that the probes take while they are on: less is no great error, whatever is known */
#define WORTH_ERROR 0.005 /* of the calls */

bool cuda_watch_plan_light(struct cuda_watch *w)
{
	struct cuda_loss loss = cuda_progress__loss(&w->progress);

	w->light.slices_ns = 0;
	w->light.of = SO_CUDA_OF_DRIVER;
	for (unsigned api = 0; api < SO_CUDA_API_COUNT; api++) {
		if (cuda_api_set__has(&w->cycled, api) && cuda_names__of(api) == SO_CUDA_OF_RUNTIME)
			w->light.of = SO_CUDA_OF_RUNTIME;
	}
	return cuda_probes__kind(w->probes) == CUDA_PROBE_SESSION && !cuda_api_set__is_empty(&w->cycled) &&
	       w->taken > WORTH_TAKEN && loss.error * w->taken > WORTH_ERROR;
}

bool cuda_watch_is_light(const struct cuda_watch *w, const struct cuda_mapped *m)
{
	return w->light.of == SO_CUDA_OF_DRIVER || m->library.kind != CUDA_LIBRARY_DRIVER;
}

void cuda_watch_begin_light(struct cuda_watch *w, uint64_t now)
{
	if (!cuda_probes__begin_slices(w->probes, w->slot, w->light.of, now))
		w->light.slices_ns = now;
	/* The target makes up for the moment in which probes were placed. */
	w->light.begin_ns = now + CUDA_WATCH_SETTLE_MS * 1000000ull;
}

void cuda_watch_end_light(struct cuda_watch *w, uint64_t now)
{
	w->light.end_ns = now;
}

/* The first slice that begins at that time or later. */
static unsigned slice_from(const struct cuda_watch *w, uint64_t at)
{
	uint64_t slice = (at - w->light.slices_ns + (1u << SO_CUDA_SLICE_SHIFT) - 1) >> SO_CUDA_SLICE_SHIFT;

	return slice < SO_CUDA_SLICES ? (unsigned)slice : SO_CUDA_SLICES;
}

/* And the first one that does not end by then. */
static unsigned slice_to(const struct cuda_watch *w, uint64_t at)
{
	uint64_t slice = (at - w->light.slices_ns) >> SO_CUDA_SLICE_SHIFT;

	return slice < SO_CUDA_SLICES ? (unsigned)slice : SO_CUDA_SLICES;
}

static double sum(const __u64 *hits, unsigned from, unsigned to)
{
	double all = 0;

	for (unsigned i = from; i < to; i++)
		all += (double)hits[i];
	return all;
}

void cuda_watch_compare(struct cuda_watch *w, uint64_t now)
{
	double light_ns = cuda_watch_taken(w).light_ns, hits;
	struct cuda_slices slices;
	struct so_cuda_slices of_all;
	struct cuda_kept kept;

	cuda_progress__age(&w->progress);
	if (!w->light.slices_ns)
		return;
	cuda_probes__begin_slices(w->probes, w->slot, w->light.of, 0);
	if (cuda_probes__slices(w->probes, w->slot, &of_all))
		return;
	slices = (struct cuda_slices){ of_all.hits, slice_from(w, w->light.begin_ns),
				       slice_to(w, w->light.end_ns), slice_from(w, w->segment_ns),
				       slice_to(w, now) };
	w->light.slices_ns = 0;
	hits = sum(of_all.hits, slices.full_from, slices.full_to);
	if (hits > 0 && slices.full_to > slices.full_from) {
		double full_ns = (double)((uint64_t)(slices.full_to - slices.full_from) << SO_CUDA_SLICE_SHIFT);

		if (cuda_progress__compare(&slices, light_ns, w->taken * full_ns / hits, &kept))
			cuda_progress__add(&w->progress, &kept, w->taken / cuda_watch_threads(w),
					   cuda_watch_threads(w));
	}
	w->light.lost_ns = cuda_progress__loss(&w->progress).factor *
			   sum(of_all.hits, 0, slice_to(w, w->segment_ns)) * light_ns / cuda_watch_threads(w);
}
