// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Times on that begin with light probes, to see what probes take from the target that it goes without (cuda_progress.h). Light are the
 * probes of the runtime's functions, or of the driver's where it alone is called, while their kind is off: the return of a session is
 * not hit then, other links have none yet, and the driver's probes, which nested calls run into, come later. Perf events come and go too
 * slowly for that.
 */
#include "daemon/cuda/cuda_watch_parts.h"

#define WORTH_TAKEN \
	0.03 /* CPUs that the probes take while they are on and calls are made: less is no great error, whatever is known */
#define WORTH_ERROR  0.008 /* of the calls */
#define LEAST_ACTIVE 0.05  /* of either time, for it to tell anything */
#define PATIENCE \
	8 /* comparisons in a row that told nothing, after which only one in so many times on has one */

/* Longer times on have more calls than there are slices for; and stand for little else than themselves. */
#define LONGEST_ON_MS                                                                        \
	(((uint64_t)SO_CUDA_SLICES << SO_CUDA_SLICE_SHIFT) / 1000000 - CUDA_WATCH_LIGHT_MS - \
	 CUDA_WATCH_SETTLE_MS)

bool cuda_watch_plan_light(struct cuda_watch *w)
{
	double usual = w->active.tid ? cuda_active__usual(&w->active) : 1,
	       taken = w->taken / (usual > LEAST_ACTIVE ? usual
				   : usual < 0          ? 1
							: LEAST_ACTIVE);
	struct cuda_loss loss = cuda_watch_loss(w);

	w->light.slices_ns = 0;
	w->light.of = SO_CUDA_OF_DRIVER;
	for (unsigned api = 0; api < SO_CUDA_API_COUNT; api++) {
		if (cuda_api_set__has(&w->cycled, api) && cuda_names__of(api) == SO_CUDA_OF_RUNTIME)
			w->light.of = SO_CUDA_OF_RUNTIME;
	}
	if (cuda_probes__kind(w->probes) == CUDA_PROBE_PERF || cuda_api_set__is_empty(&w->cycled) ||
	    w->cycle.on_ms > LONGEST_ON_MS)
		return false;
	if (w->light.fruitless >= PATIENCE && w->segment % PATIENCE)
		return false;
	return taken > WORTH_TAKEN && loss.chance * taken > WORTH_ERROR;
}

bool cuda_watch_is_light(const struct cuda_watch *w, const struct cuda_mapped *m)
{
	return w->light.of == SO_CUDA_OF_DRIVER || m->library.kind != CUDA_LIBRARY_DRIVER;
}

void cuda_watch_begin_hits(struct cuda_watch *w)
{
	if (cuda_probes__slot(w->probes, w->slot, &w->light.slot))
		w->light.slot = w->slot_seen;
}

void cuda_watch_begin_light(struct cuda_watch *w, uint64_t now)
{
	cuda_watch_look_off(w, now);
	w->light.stepped = 0;
	cuda_watch_begin_hits(w);
	if (!cuda_probes__begin_slices(w->probes, w->slot, w->light.of, now))
		w->light.slices_ns = now;
	/* The target makes up for the moment in which probes were placed. */
	w->light.begin_ns = now + CUDA_WATCH_SETTLE_MS * 1000000ull;
}

void cuda_watch_end_light(struct cuda_watch *w, uint64_t now)
{
	struct so_cuda_slot slot;
	uint64_t hits;

	w->light.end_ns = now;
	w->light.share = cuda_watch_look_off(w, now);
	if (cuda_probes__slot(w->probes, w->slot, &slot))
		return;
	hits = gained(slot.hits, w->light.slot.hits);
	if (hits)
		w->light.stepped = (double)gained(slot.stepped, w->light.slot.stepped) / (double)hits;
}

/* What a hit of them costs, where so much is what they cost and that single-stepping costs besides. */
static double light_ns(const struct cuda_watch *w, const struct cuda_probe_cost *cost)
{
	return cost->light_ns + w->light.stepped * cost->stepped_ns;
}

void cuda_watch_drop_light(struct cuda_watch *w)
{
	cuda_probes__end_slices(w->probes, w->slot);
	w->light.slices_ns = 0;
}

/* Of the slices' time, [from, to) in ns of CLOCK_MONOTONIC: those that lie in it. */
struct range {
	unsigned from, to;
};

static struct range range_of(uint64_t slices_ns, uint64_t from, uint64_t to)
{
	uint64_t first = (from - slices_ns + (1u << SO_CUDA_SLICE_SHIFT) - 1) >> SO_CUDA_SLICE_SHIFT;
	uint64_t end = (to - slices_ns) >> SO_CUDA_SLICE_SHIFT;

	return (struct range){ first < SO_CUDA_SLICES ? (unsigned)first : SO_CUDA_SLICES,
			       end < SO_CUDA_SLICES ? (unsigned)end : SO_CUDA_SLICES };
}

static double sum(const __u64 *hits, unsigned from, unsigned to)
{
	double all = 0;

	for (unsigned i = from; i < to; i++)
		all += (double)hits[i];
	return all;
}

/* Of all of its probes, whose kinds are off: the returns of sessions are not hit. */
static double hits_ns(const struct cuda_watch *w, const struct cuda_probe_cost *cost)
{
	struct so_cuda_slot slot;

	if (cuda_probes__slot(w->probes, w->slot, &slot))
		return 0;
	return (double)gained(slot.hits, w->light.slot.hits) * cost->light_ns +
	       (double)gained(slot.returns, w->light.slot.returns) * (cost->pair_ns - cost->light_ns) +
	       (double)gained(slot.stepped, w->light.slot.stepped) * cost->stepped_ns;
}

double cuda_watch_lost_before_ns(const struct cuda_watch *w)
{
	struct cuda_probe_cost cost = cuda_watch_cost(w);
	struct so_cuda_slices all;
	double ns;

	if (!w->light.slices_ns)
		ns = hits_ns(w, &cost);
	else if (!cuda_probes__slices(w->probes, w->slot, &all))
		ns = sum(all.hits, 0, SO_CUDA_SLICES) * light_ns(w, &cost);
	else
		ns = 0;
	return cuda_watch_loss(w).factor * ns;
}

/* Whether it told anything. */
static bool compare(struct cuda_watch *w, uint64_t slices_ns, const struct cuda_watch_taken *taken,
		    double share, uint64_t now)
{
	struct range light = range_of(slices_ns, w->light.begin_ns, w->light.end_ns);
	struct range full = range_of(slices_ns, w->segment_ns, now);
	double n = w->progress.n, hits, full_ns;
	struct so_cuda_slices all;
	struct cuda_slices slices;
	struct cuda_kept kept;

	if (w->light.share < LEAST_ACTIVE || share < LEAST_ACTIVE ||
	    cuda_probes__slices(w->probes, w->slot, &all))
		return false;
	slices = (struct cuda_slices){ .hits = all.hits,
				       .light_from = light.from,
				       .light_to = light.to,
				       .full_from = full.from,
				       .full_to = full.to,
				       .light_away = 1 - w->light.share,
				       .full_away = 1 - share };
	hits = sum(all.hits, full.from, full.to);
	if (hits <= 0)
		return false;
	full_ns = (double)((uint64_t)(full.to - full.from) << SO_CUDA_SLICE_SHIFT);
	if (!cuda_progress__compare(&slices, light_ns(w, &taken->cost), w->taken * full_ns / hits, &kept))
		return false;
	cuda_progress__add(&w->progress, &kept, w->taken / share);
	return w->progress.n > n;
}

void cuda_watch_compare(struct cuda_watch *w, const struct cuda_watch_taken *taken, double share, uint64_t now)
{
	uint64_t slices_ns = w->light.slices_ns;

	cuda_progress__age(&w->progress);
	if (!slices_ns)
		return;
	cuda_watch_drop_light(w);
	w->light.fruitless = compare(w, slices_ns, taken, share, now) ? 0 : w->light.fruitless + 1;
}
