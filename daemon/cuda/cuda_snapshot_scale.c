// SPDX-License-Identifier: GPL-2.0-or-later
/* Estimates of all calls from some: of units that are counted in windows, and of times that some calls have. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/cuda_names.h"
#include "daemon/cuda/cuda_snapshot_parts.h"

/*
 * Scales one count after the other so that neither a count nor a sum of neighbours is off by more than 1, and each is
 * right on average over all starts: the n-th one of all comes out floor(start + factor × n) - floor(start + factor ×
 * (n - 1)) times.
 */
struct scaler {
	long double factor, start;
	long double exact; /* sum of factor × count */
	uint64_t given;
};

static uint64_t scaler__next(struct scaler *scaler, uint64_t count)
{
	uint64_t before = scaler->given;

	scaler->exact += scaler->factor * (long double)count;
	scaler->given = (uint64_t)floorl(scaler->start + scaler->exact);
	return scaler->given - before;
}

static uint64_t in_proportion(uint64_t value, uint64_t to, uint64_t of)
{
	long double scaled = of ? roundl((long double)value * (long double)to / (long double)of) : 0;

	return scaled < 0x1p64L ? (uint64_t)scaled : UINT64_MAX;
}

static bool is_of_units(uint32_t api, uint32_t units)
{
	return units == ~0u || (api < SO_CUDA_API_COUNT && units >> cuda_names__unit(api) & 1);
}

/* Of a site only the kind is known. */
static bool is_of_kinds(uint32_t kind, uint32_t units)
{
	return ((units | units >> SO_CUDA_KIND_ROOM) >> kind) & 1;
}

static void scale_calls(struct so_cuda_calls *calls, struct scaler *counts, struct scaler *errors)
{
	uint64_t before = calls->calls, after = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		calls->buckets[i] = scaler__next(counts, calls->buckets[i]);
		after += calls->buckets[i];
	}
	calls->calls = after;
	calls->errors = scaler__next(errors, calls->errors);
	if (calls->errors > after)
		calls->errors = after;
	calls->total_ns = in_proportion(calls->total_ns, after, before);
	calls->squares = in_proportion(calls->squares, after, before);
	calls->bytes = in_proportion(calls->bytes, after, before);
	calls->blocks = in_proportion(calls->blocks, after, before);
	calls->threads = in_proportion(calls->threads, after, before);
}

#define COMPARE(a, b)   \
	if ((a) != (b)) \
	return (a) < (b) ? -1 : 1

/* The calls of one API of one process lie together, so that their sum is scaled within 1. */
static int compare_calls(const void *a, const void *b)
{
	const struct so_cuda_key *x = &(*(struct cuda_calls_entry *const *)a)->key;
	const struct so_cuda_key *y = &(*(struct cuda_calls_entry *const *)b)->key;

	COMPARE(x->tgid, y->tgid);
	COMPARE(x->api, y->api);
	COMPARE(x->library, y->library);
	COMPARE(x->tid, y->tid);
	COMPARE(x->kernel, y->kernel);
	COMPARE(x->direction, y->direction);
	COMPARE(x->octave, y->octave);
	return 0;
}

static int compare_errors(const void *a, const void *b)
{
	const struct so_cuda_error_key *x = &(*(struct cuda_error_entry *const *)a)->key;
	const struct so_cuda_error_key *y = &(*(struct cuda_error_entry *const *)b)->key;

	COMPARE(x->tgid, y->tgid);
	COMPARE(x->api, y->api);
	COMPARE(x->library, y->library);
	COMPARE(x->code, y->code);
	return 0;
}

static int compare_sites(const void *a, const void *b)
{
	return memcmp(*(void *const *)a, *(void *const *)b, sizeof(struct so_cuda_site_key));
}

/* The entries, sorted; malloc'ed. NULL: no memory. */
static void *sort_entries(const struct entries *entries, int (*compare)(const void *, const void *))
{
	void **sorted = malloc((entries->n + 1) * sizeof(*sorted));

	if (!sorted)
		return NULL;
	for (size_t i = 0; i < entries->n; i++)
		sorted[i] = entries__at(entries, i);
	qsort(sorted, entries->n, sizeof(*sorted), compare);
	return sorted;
}

/* Releases are seen of memory whose allocation was: they are scaled as these, however their own kind is counted. */
static void scale_site(struct so_cuda_site *site, struct scaler *allocations, struct scaler *frees)
{
	uint64_t before = site->allocations;

	site->allocations = scaler__next(allocations, before);
	site->frees = scaler__next(frees, site->frees);
	site->bytes = in_proportion(site->bytes, site->allocations, before);
}

int cuda_snapshot__scale(struct cuda_snapshot *snapshot, uint32_t units, double factor, double start)
{
	struct scaler calls = { .factor = factor, .start = start }, failed = calls, codes = calls, allocations = calls,
		      frees = calls;
	_cleanup_free_ struct cuda_calls_entry **by_api = NULL;
	_cleanup_free_ struct cuda_error_entry **by_code = NULL;
	_cleanup_free_ struct cuda_site_entry **by_site = NULL;

	if (!(factor >= 0) || !isfinite(factor) || !(start >= 0 && start < 1))
		return -EINVAL;
	by_api = sort_entries(&snapshot->calls, compare_calls);
	by_code = sort_entries(&snapshot->errors, compare_errors);
	by_site = sort_entries(&snapshot->sites, compare_sites);
	if (!by_api || !by_code || !by_site)
		return -ENOMEM;
	for (size_t i = 0; i < snapshot->calls.n; i++) {
		if (is_of_units(by_api[i]->key.api, units))
			scale_calls(&by_api[i]->calls, &calls, &failed);
	}
	for (size_t i = 0; i < snapshot->errors.n; i++) {
		if (is_of_units(by_code[i]->key.api, units))
			by_code[i]->count = scaler__next(&codes, by_code[i]->count);
	}
	for (size_t i = 0; i < snapshot->sites.n; i++) {
		if (is_of_kinds(by_site[i]->key.kind, units))
			scale_site(&by_site[i]->site, &allocations, &frees);
	}
	return 0;
}

/* A row: entries that differ in their octaves only. The one of untimed calls, if there is one, is the last. */
static size_t end_of_row(struct cuda_calls_entry *const *all, size_t first, size_t n)
{
	struct so_cuda_key key = all[first]->key;

	while (first < n) {
		key.octave = all[first]->key.octave;
		if (memcmp(&key, &all[first]->key, sizeof(key)))
			break;
		first++;
	}
	return first;
}

static uint64_t timed_calls(struct cuda_calls_entry *const *entries, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += entries[i]->key.octave < SO_CUDA_UNTIMED ? entries[i]->calls.calls : 0;
	return sum;
}

/* The timed calls among these, scaled to `calls`, for the row; bytes and dimensions stay. 0, -ENOMEM. */
static int add_scaled(struct cuda_snapshot *out, const struct so_cuda_key *row, struct cuda_calls_entry *const *entries,
		      size_t n, uint64_t calls)
{
	struct scaler counts = { .factor = (long double)calls / (long double)timed_calls(entries, n), .start = 0.5L },
		      errors = counts;

	for (size_t i = 0; i < n; i++) {
		struct so_cuda_calls scaled = entries[i]->calls;
		struct so_cuda_key key = *row;
		struct cuda_calls_entry *to;

		key.octave = entries[i]->key.octave;
		if (key.octave == SO_CUDA_UNTIMED)
			continue;
		scale_calls(&scaled, &counts, &errors);
		scaled.bytes = scaled.blocks = scaled.threads = 0;
		to = entries__get(out, &out->calls, &key);
		if (!to)
			return -ENOMEM;
		cuda_calls__merge(&to->calls, &scaled);
	}
	return 0;
}

/* api: all entries of the row's process, API and library, whose times a row has that has none of its own. */
static int add_row(struct cuda_snapshot *out, struct cuda_calls_entry *const *row, size_t n,
		   struct cuda_calls_entry *const *api, size_t n_api)
{
	struct cuda_calls_entry *const untimed = row[n - 1];
	uint64_t timed = timed_calls(row, n), all = timed;
	struct so_cuda_key key = row[0]->key;
	struct cuda_calls_entry *first;
	int ret = 0;

	if (untimed->key.octave == SO_CUDA_UNTIMED)
		all += untimed->calls.calls;
	if (timed)
		ret = add_scaled(out, &key, row, n, all);
	else if (timed_calls(api, n_api))
		ret = add_scaled(out, &key, api, n_api, all);
	if (ret)
		return ret;
	/* All bytes are known; and calls, where nothing is known of times. */
	key.octave = timed ? key.octave : 0;
	first = entries__get(out, &out->calls, &key);
	if (!first)
		return -ENOMEM;
	if (!timed && !timed_calls(api, n_api))
		first->calls.calls = first->calls.buckets[0] = all;
	for (size_t i = 0; i < n; i++) {
		const struct so_cuda_calls *calls = &row[i]->calls;

		first->calls.bytes += calls->bytes;
		first->calls.blocks += calls->blocks;
		first->calls.threads += calls->threads;
		memcpy(first->calls.grid, calls->grid, sizeof(calls->grid));
		memcpy(first->calls.block, calls->block, sizeof(calls->block));
		if (calls->stream)
			first->calls.stream = calls->stream;
		if (calls->caller)
			first->calls.caller = calls->caller;
	}
	return 0;
}

static bool same_api(const struct cuda_calls_entry *a, const struct cuda_calls_entry *b)
{
	return a->key.tgid == b->key.tgid && a->key.api == b->key.api && a->key.library == b->key.library;
}

int cuda_snapshot__spread_untimed(struct cuda_snapshot *snapshot)
{
	_cleanup_free_ struct cuda_calls_entry **all = sort_entries(&snapshot->calls, compare_calls);
	_cleanup_(cuda_snapshot) struct cuda_snapshot *out = NULL;
	size_t n = snapshot->calls.n, end, row_end;
	struct entries before;
	int ret = all ? cuda_snapshot__new(&out) : -ENOMEM;

	for (size_t first = 0; !ret && first < n; first = end) {
		for (end = first; end < n && same_api(all[end], all[first]); end++)
			;
		for (size_t row = first; !ret && row < end; row = row_end) {
			row_end = end_of_row(all, row, end);
			ret = add_row(out, all + row, row_end - row, all + first, end - first);
		}
	}
	if (ret)
		return ret;
	before = snapshot->calls;
	snapshot->calls = out->calls;
	out->calls = before;
	return 0;
}
