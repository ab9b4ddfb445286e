// SPDX-License-Identifier: GPL-2.0-or-later
/* The lists of a document, row by row. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/history/cuda_merge_internal.h"
#include "stakeout/cuda_names.h"
#include "stakeout/array.h"

/* Both rise. From the end, so that the row's array can take the sum in place. */
static void add_histogram(struct reading *r, struct call_row *row, size_t n_more)
{
	size_t n = row->n_buckets, m = n_more, at = n + m, gap;
	struct cuda_bucket *b;

	r->merge->buckets_bytes -= row->capacity * sizeof(*b);
	if (m && ARRAY_RESERVE(row->buckets, row->capacity, n + m))
		merge_refuse(r, -ENOMEM);
	r->merge->buckets_bytes += row->capacity * sizeof(*b);
	if (r->fields.ret || !m)
		return;
	b = row->buckets;
	while (m) {
		struct cuda_bucket last = r->buckets[m - 1];

		if (n && b[n - 1].index > last.index) {
			b[--at] = b[--n];
			continue;
		}
		m--;
		if (n && b[n - 1].index == last.index)
			merge_sum_count(&last.count, b[--n].count);
		b[--at] = last;
	}
	/* What both had leaves a gap between the first n, which are in their place, and the rest. */
	gap = at - n;
	memmove(b + n, b + at, (row->n_buckets + n_more - at) * sizeof(*b));
	row->n_buckets += n_more - gap;
}

static void add_library(struct reading *r, const json_t *json)
{
	struct so_cuda_library_row row, *to;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_LIBRARY, json, &row) || !r->merge)
		return;
	to = merge_add_row(r, SO_CUDA_ROW_LIBRARY, &row, 0);
	if (to && u64_table__set(&r->libraries, (uint64_t)row.id, merge_library_number(r->merge, to)))
		merge_refuse(r, -ENOMEM);
}

/* Its number in the sum; 0: it is not in the list. */
static int64_t library_id(const struct reading *r, int64_t id)
{
	uint32_t n;

	return u64_table__get(&r->libraries, (uint64_t)id, &n) ? n : 0;
}

/* By this daemon's words, whatever an older one's were; of a newer one's call by its own. */
static const char *does(const char *word, const char *api)
{
	unsigned known = cuda_names__api_of(api);

	return known < SO_CUDA_API_COUNT ? cuda_names__does(known) : word;
}

static void add_call(struct reading *r, const json_t *json)
{
	struct so_cuda_call_row row;
	struct call_row *to;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_CALL, json, &row) ||
	    !so_cuda_buckets__read(&r->fields, row.histogram_json, r->buckets) || !r->merge || !row.calls)
		return;
	row.kind_word = does(row.kind_word, row.api);
	row.library_id = library_id(r, row.library_id);
	to = merge_add_row(r, SO_CUDA_ROW_CALL, &row, row.kernel ? 0 : row.kernel_address);
	if (to)
		add_histogram(r, to, json_array_size(row.histogram_json));
}

/* Of the rows that make no sense without it. */
static void require_api(struct reading *r, const char *api)
{
	if (!*api)
		merge_refuse(r, -EBADMSG);
}

static void add_error(struct reading *r, const json_t *json)
{
	struct so_cuda_error_row row;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_ERROR, json, &row))
		return;
	require_api(r, row.api);
	if (!merge_adds(r))
		return;
	row.library_id = library_id(r, row.library_id);
	merge_add_row(r, SO_CUDA_ROW_ERROR, &row, 0);
}

static void add_line(struct reading *r, const json_t *json)
{
	struct so_cuda_line_row row;
	struct line_row *to;
	uint32_t stack;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_LINE, json, &row))
		return;
	stack = merge_stack(r, row.stack_json);
	require_api(r, row.api);
	if (!merge_adds(r))
		return;
	row.event_word = does(row.event_word, row.api);
	to = merge_add_row(r, SO_CUDA_ROW_LINE, &row, stack);
	if (to)
		to->stack = stack;
	/* An older daemon's. */
	if (!json_object_get(json, "stacks_ns"))
		r->merge->lines_unknown = true;
}

/* Sites that read alike, as two addresses in one line do, are one row: sums within a document. */
static void add_site(struct reading *r, const json_t *json)
{
	struct so_cuda_allocation_row row;
	struct site_row *to;
	uint32_t stack;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_ALLOCATION, json, &row))
		return;
	stack = merge_stack(r, row.stack_json);
	if (!merge_adds(r))
		return;
	to = merge_add_row(r, SO_CUDA_ROW_ALLOCATION, &row, stack);
	if (!to)
		return;
	to->stack = stack;
	if (to->document != r->merge->n_documents) {
		if (!to->document)
			to->peak_before = INT64_MIN;
		else if (to->peak_bytes > to->peak_before)
			to->peak_before = to->peak_bytes;
		to->current_bytes = to->peak_bytes = 0;
		to->document = r->merge->n_documents;
	}
	merge_sum_signed(&to->current_bytes, row.current_bytes);
	merge_sum_signed(&to->peak_bytes, row.peak_bytes);
}

static void add_device(struct reading *r, const json_t *json)
{
	struct so_cuda_device_row row;
	struct device_row *to;
	double seconds, process_seconds;

	if (!so_cuda_row__read(&r->fields, SO_CUDA_ROW_DEVICE, json, &row) || !r->merge)
		return;
	seconds = isnan(row.seconds) ? r->duration_s : row.seconds;
	process_seconds = isnan(row.process_seconds) ? r->duration_s : row.process_seconds;
	to = merge_add_row(r, SO_CUDA_ROW_DEVICE, &row, 0);
	if (!to)
		return;
	merge_sum_mean(&to->utilisation, row.utilisation_percent, seconds);
	merge_sum_mean(&to->memory_utilisation, row.memory_utilisation_percent, seconds);
	merge_sum_mean(&to->process_utilisation, row.process_utilisation_percent, process_seconds);
}

/* Copied as it is, once it is known to be what it must be. */
static void check_in_progress(struct reading *r, const json_t *json)
{
	struct so_cuda_in_progress_row row;

	so_cuda_row__read(&r->fields, SO_CUDA_ROW_IN_PROGRESS, json, &row);
}

static void each(struct reading *r, const json_t *owner, const char *key,
		 void (*take)(struct reading *, const json_t *))
{
	const json_t *rows = json_fields__list(&r->fields, owner, key, SO_CUDA_MAX_ROWS), *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (!json_fields__row(&r->fields, row, key, i))
			return;
		take(r, row);
	}
}

void merge_rows(struct reading *r, const json_t *document)
{
	each(r, document, "in_progress", check_in_progress);
	each(r, document, "libraries", add_library);
	each(r, document, "calls", add_call);
	each(r, document, "errors", add_error);
	each(r, document, "lines", add_line);
	each(r, document, "allocations", add_site);
}

void merge_devices(struct reading *r, const json_t *gpu)
{
	each(r, gpu, "devices", add_device);
}
