// SPDX-License-Identifier: GPL-2.0-or-later
/* What happened between two snapshots. */
#include "daemon/cuda/cuda_snapshot_parts.h"

#include <stdbool.h>

/*
 * min_ns and max_ns of the calls since; `all` has those of all calls, `since` its differences but for these two.
 *
 * The lowest bucket that is not empty holds the shortest call; and were all other calls as long as their buckets
 * allow, the shortest would be what is left of the sum of times; nor can it be shorter than the shortest of all
 * calls. The longest likewise. Times are noted a moment before or after the bucket is counted, so the other bounds
 * count only inside the bucket.
 */
static void bound_extremes(uint32_t octave, const struct so_cuda_calls *all, struct so_cuda_calls *since)
{
	__extension__ __int128 total = since->total_ns, low_sum = 0, high_sum = 0, bound;
	uint64_t low = 0, low_end = 0, high = 0, high_end = 0;
	bool any = false;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		uint64_t lower = latency_lower(octave, i), upper = lower + latency_width(octave) - 1;

		if (!since->buckets[i])
			continue;
		/* The last bucket of the last octave has no upper bound of its own. */
		if (octave == LATENCY_OCTAVES - 1 && i == LATENCY_BUCKETS - 1 && all->max_ns > upper)
			upper = all->max_ns;
		if (!any)
			low = lower, low_end = upper;
		high = lower, high_end = upper;
		any = true;
		low_sum += (__int128)lower * since->buckets[i];
		high_sum += (__int128)upper * since->buckets[i];
	}
	bound = total - (high_sum - low_end);
	since->min_ns = bound > low && bound <= low_end ? (uint64_t)bound : low;
	if (all->min_ns > since->min_ns && all->min_ns <= low_end)
		since->min_ns = all->min_ns;
	bound = total - (low_sum - high);
	since->max_ns = bound >= high && bound < high_end ? (uint64_t)bound : high_end;
	if (all->max_ns < since->max_ns && all->max_ns >= high)
		since->max_ns = all->max_ns;
	if (since->min_ns > since->max_ns)
		since->min_ns = since->max_ns;
}

/* Turns what an entry holds now into what happened since; false: nothing. */
static bool subtract_calls(uint32_t octave, struct so_cuda_calls *calls, const struct so_cuda_calls *base)
{
	const struct so_cuda_calls all = *calls;

	if (!base || !base->calls || calls->calls < base->calls)
		return calls->calls > 0;
	if (calls->calls == base->calls)
		return false;
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		if (calls->buckets[i] < base->buckets[i]) {
			*calls = all;
			return true;
		}
		calls->buckets[i] -= base->buckets[i];
	}
	/* Squares may have passed 2^64: their difference is right all the same. */
	calls->calls -= base->calls;
	calls->errors = calls->errors > base->errors ? calls->errors - base->errors : 0;
	calls->total_ns -= base->total_ns;
	calls->squares -= base->squares;
	calls->bytes -= base->bytes;
	calls->blocks -= base->blocks;
	calls->threads -= base->threads;
	if (octave < SO_CUDA_UNTIMED)
		bound_extremes(octave, &all, calls);
	return true;
}

static int subtract_all_calls(const struct cuda_snapshot *now, const struct cuda_snapshot *base,
			      struct cuda_snapshot *to)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < now->calls.n; i++) {
		const struct cuda_calls_entry *entry = entries__at(&now->calls, i);
		struct so_cuda_calls since = entry->calls;

		if (subtract_calls(entry->key.octave, &since, cuda_snapshot__find_calls(base, &entry->key)))
			ret = cuda_snapshot__add_calls(to, &entry->key, &since);
	}
	return ret;
}

static int subtract_errors(const struct cuda_snapshot *now, const struct cuda_snapshot *base, struct cuda_snapshot *to)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < now->errors.n; i++) {
		const struct cuda_error_entry *entry = entries__at(&now->errors, i);
		const uint64_t *before = cuda_snapshot__find_error(base, &entry->key);
		uint64_t count = entry->count - (before && *before <= entry->count ? *before : 0);

		if (count)
			ret = cuda_snapshot__add_error(to, &entry->key, count);
	}
	return ret;
}

static int subtract_sites(const struct cuda_snapshot *now, const struct cuda_snapshot *base, struct cuda_snapshot *to)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < now->sites.n; i++) {
		const struct cuda_site_entry *entry = entries__at(&now->sites, i);
		const struct so_cuda_site *before = cuda_snapshot__find_site(base, &entry->key);
		struct so_cuda_site since = entry->site;

		if (before && before->allocations <= since.allocations && before->frees <= since.frees &&
		    before->bytes <= since.bytes) {
			since.allocations -= before->allocations;
			since.frees -= before->frees;
			since.bytes -= before->bytes;
		}
		if (since.allocations || since.frees || since.current_bytes > 0)
			ret = cuda_snapshot__add_site(to, &entry->key, &since);
	}
	return ret;
}

static void subtract_slot(struct so_cuda_slot *from, const struct so_cuda_slot *what)
{
	for (size_t i = 0; i < CUDA_SLOT_WORDS; i++)
		((__u64 *)from)[i] -=
			((const __u64 *)what)[i] < ((__u64 *)from)[i] ? ((const __u64 *)what)[i] : ((__u64 *)from)[i];
}

static int subtract_slots(const struct cuda_snapshot *now, const struct cuda_snapshot *base, struct cuda_snapshot *to)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < now->slots.n; i++) {
		const struct cuda_slot_entry *entry = entries__at(&now->slots, i);
		const struct so_cuda_slot *before = cuda_snapshot__find_slot(base, entry->slot);
		struct so_cuda_slot since = entry->sum;

		if (before && before->hits <= since.hits)
			subtract_slot(&since, before);
		ret = cuda_snapshot__add_slot(to, entry->slot, &since, 1);
	}
	return ret;
}

int cuda_snapshot__subtract(const struct cuda_snapshot *now, const struct cuda_snapshot *base,
			    struct cuda_snapshot **out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *since = NULL;
	int ret = cuda_snapshot__new(&since);

	ret = ret ?: subtract_all_calls(now, base, since);
	ret = ret ?: subtract_errors(now, base, since);
	ret = ret ?: subtract_sites(now, base, since);
	ret = ret ?: subtract_slots(now, base, since);
	if (!ret)
		*out = TAKE_PTR(since);
	return ret;
}
