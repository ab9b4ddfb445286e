// SPDX-License-Identifier: GPL-2.0-or-later
/* The lists of a document, row by row. */
#include <errno.h>
#include <string.h>

#include "daemon/history/cuda_merge_reading.h"
#include "daemon/cuda/cuda_names.h"
#include "stakeout/array.h"

/* Histograms. */

/* [lower_ns, width_ns, count], a bucket of stakeout/latency.h */
static bool read_bucket(const json_t *triple, struct bucket *out)
{
	json_int_t lower = json_integer_value(json_array_get(triple, 0)),
		   width = json_integer_value(json_array_get(triple, 1)),
		   n = json_integer_value(json_array_get(triple, 2));
	uint32_t octave, place;

	if (json_array_size(triple) != 3 || lower < 0 || width < 0 || n < 0)
		return false;
	for (size_t i = 0; i < 3; i++)
		if (!json_is_integer(json_array_get(triple, i)))
			return false;
	octave = latency_octave((uint64_t)lower);
	place = latency_bucket((uint64_t)lower, octave);
	*out = (struct bucket){ (uint64_t)lower, (uint64_t)n };
	return latency_lower(octave, place) == (uint64_t)lower && latency_width(octave) == (uint64_t)width;
}

static const json_t *check_histogram(struct reading *r, const json_t *row)
{
	const json_t *found = json_fields__list(&r->fields, row, "histogram", LATENCY_OCTAVES * LATENCY_BUCKETS),
		     *triple;
	struct bucket last = { 0 }, bucket;
	size_t i;

	if (r->fields.ret)
		return NULL;
	json_array_foreach (found, i, triple) {
		if (!read_bucket(triple, &bucket) || (i && bucket.lower_ns <= last.lower_ns)) {
			merge_refuse(r, -EBADMSG);
			return NULL;
		}
		last = bucket;
	}
	return found;
}

/* Both rise. From the end, so that the row's array can take the sum in place. */
static void add_histogram(struct reading *r, struct call_row *row, const json_t *more)
{
	size_t n = row->n_buckets, m = json_array_size(more), at = n + m, gap;
	struct bucket *b;

	r->merge->buckets_bytes -= row->capacity * sizeof(*b);
	if (m && ARRAY_RESERVE(row->buckets, row->capacity, n + m))
		merge_refuse(r, -ENOMEM);
	r->merge->buckets_bytes += row->capacity * sizeof(*b);
	if (r->fields.ret || !m)
		return;
	b = row->buckets;
	while (m) {
		struct bucket last;

		read_bucket(json_array_get(more, m - 1), &last);
		if (n && b[n - 1].lower_ns > last.lower_ns) {
			b[--at] = b[--n];
			continue;
		}
		m--;
		if (n && b[n - 1].lower_ns == last.lower_ns)
			merge_sum_count(&last.count, b[--n].count);
		b[--at] = last;
	}
	/* What both had leaves a gap between the first n, which are in their place, and the rest. */
	gap = at - n;
	memmove(b + n, b + at, (row->n_buckets + json_array_size(more) - at) * sizeof(*b));
	row->n_buckets += json_array_size(more) - gap;
}

/* Rows. */

static void add_library(struct reading *r, const json_t *row)
{
	const char *path = json_fields__text(&r->fields, row, "path", NULL),
		   *kind = json_fields__text(&r->fields, row, "kind", NULL);
	int64_t id = json_fields__integer(&r->fields, row, "id");
	uint32_t n = 0;
	struct library_key key = { .pid = json_fields__integer(&r->fields, row, "pid"),
				   .is_static = json_fields__flag(&r->fields, row, "static", false) };

	if (!merge_adds(r))
		return;
	key.path = merge_word(r, path ?: "");
	key.kind = merge_word(r, kind ?: "");
	if (!merge_row(r, &r->merge->libraries, &key, sizeof(key), NULL))
		return;
	/* Its number: it is known now. */
	if (intern__add(&r->merge->libraries.keys, &key, sizeof(key), &n) < 0 ||
	    u64_table__set(&r->libraries, (uint64_t)id, n))
		merge_refuse(r, -ENOMEM);
}

static uint32_t library(const struct reading *r, int64_t id)
{
	uint32_t n;

	return u64_table__get(&r->libraries, (uint64_t)id, &n) ? n : NO_LIBRARY;
}

static void three(struct reading *r, const json_t *row, const char *key, uint32_t out[3])
{
	const json_t *found = json_fields__list(&r->fields, row, key, 3), *value;
	size_t i;

	if (r->fields.ret)
		return;
	json_array_foreach (found, i, value) {
		if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT32_MAX)
			merge_refuse(r, -EBADMSG);
		out[i] = (uint32_t)json_integer_value(value);
	}
}

static void read_figures(struct reading *r, const json_t *row, struct call_row *out)
{
	*out = (struct call_row){
		.calls = json_fields__count(&r->fields, row, "calls"),
		.errors = json_fields__count(&r->fields, row, "errors"),
		.total_ns = json_fields__count(&r->fields, row, "total_ns"),
		.min_ns = json_fields__count(&r->fields, row, "min_ns"),
		.max_ns = json_fields__count(&r->fields, row, "max_ns"),
		.bytes = json_fields__count(&r->fields, row, "bytes"),
		.blocks = json_fields__count(&r->fields, row, "blocks"),
		.threads = json_fields__count(&r->fields, row, "threads"),
		.squares_ns2 = json_fields__number(&r->fields, row, "squares_ns2", 1e308, 0),
	};
	three(r, row, "grid", out->grid);
	three(r, row, "block", out->block);
	if (out->min_ns > out->max_ns || out->errors > out->calls)
		merge_refuse(r, -EBADMSG);
}

static void sum_figures(struct call_row *to, const struct call_row *from, bool new)
{
	if (new || from->min_ns < to->min_ns)
		to->min_ns = from->min_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	merge_sum_count(&to->calls, from->calls);
	merge_sum_count(&to->errors, from->errors);
	merge_sum_count(&to->total_ns, from->total_ns);
	merge_sum_count(&to->bytes, from->bytes);
	merge_sum_count(&to->blocks, from->blocks);
	merge_sum_count(&to->threads, from->threads);
	merge_sum_real(&to->squares_ns2, from->squares_ns2);
	memcpy(to->grid, from->grid, sizeof(to->grid));
	memcpy(to->block, from->block, sizeof(to->block));
}

/* By this daemon's words, whatever an older one's were; of a newer one's call by its own. */
static const char *does(const char *word, const char *api)
{
	struct cuda_name name;

	if (cuda_names__find(api, strlen(api), &name) && name.type == CUDA_NAME_API)
		return cuda_names__does(name.number);
	return word ?: "";
}

static void add_call(struct reading *r, const json_t *row)
{
	const char *api = json_fields__text(&r->fields, row, "api", NULL),
		   *kind = json_fields__text(&r->fields, row, "kind", NULL),
		   *comm = json_fields__text(&r->fields, row, "comm", NULL),
		   *kernel = json_fields__text(&r->fields, row, "kernel", NULL),
		   *direction = json_fields__text(&r->fields, row, "direction", NULL),
		   *at = merge_address(r, row, "kernel_address"), *stream = merge_address(r, row, "stream");
	struct call_key key = { .pid = json_fields__integer(&r->fields, row, "pid"),
				.tid = json_fields__integer(&r->fields, row, "tid") };
	int64_t id = json_fields__integer(&r->fields, row, "library");
	const json_t *histogram = check_histogram(r, row);
	struct call_row figures, *to;
	bool new;

	read_figures(r, row, &figures);
	if (!api)
		merge_refuse(r, -EBADMSG);
	if (!merge_adds(r) || !figures.calls)
		return;
	key.api = merge_word(r, api);
	key.kind = merge_word(r, does(kind, api));
	key.library = library(r, id);
	key.direction = merge_word(r, direction ?: "");
	key.kernel = merge_word(r, kernel);
	key.address = kernel ? NO_WORD : merge_word(r, at);
	to = merge_row(r, &r->merge->calls, &key, sizeof(key), &new);
	if (!to)
		return;
	to->comm = merge_word(r, comm ?: "");
	to->address = merge_word(r, at);
	to->stream = merge_word(r, stream ?: "0x0");
	sum_figures(to, &figures, new);
	add_histogram(r, to, histogram);
}

static void add_error(struct reading *r, const json_t *row)
{
	const char *api = json_fields__text(&r->fields, row, "api", NULL);
	int64_t id = json_fields__integer(&r->fields, row, "library");
	struct error_key key = { .pid = json_fields__integer(&r->fields, row, "pid"),
				 .code = json_fields__count(&r->fields, row, "code") };
	uint64_t n = json_fields__count(&r->fields, row, "count");
	struct error_row *to;

	if (!api || key.code > UINT32_MAX)
		merge_refuse(r, -EBADMSG);
	if (!merge_adds(r))
		return;
	key.api = merge_word(r, api);
	key.library = library(r, id);
	to = merge_row(r, &r->merge->errors, &key, sizeof(key), NULL);
	if (to)
		merge_sum_count(&to->count, n);
}

static void add_line(struct reading *r, const json_t *row)
{
	const char *event = json_fields__text(&r->fields, row, "event", NULL),
		   *api = json_fields__text(&r->fields, row, "api", NULL),
		   *line = json_fields__text(&r->fields, row, "line", NULL);
	struct line_key key = { .pid = json_fields__integer(&r->fields, row, "pid"),
				.tid = json_fields__integer(&r->fields, row, "tid") };
	uint64_t calls = json_fields__count(&r->fields, row, "calls"),
		 ns = json_fields__count(&r->fields, row, "total_ns"),
		 bytes = json_fields__count(&r->fields, row, "bytes"),
		 stacks = json_fields__count(&r->fields, row, "stacks"),
		 stacks_ns = json_fields__count(&r->fields, row, "stacks_ns"),
		 stacks_bytes = json_fields__count(&r->fields, row, "stacks_bytes");
	bool sampled = json_fields__flag(&r->fields, row, "sampled", false);
	struct line_row *to;

	key.stack = merge_stack(r, row);
	if (!api)
		merge_refuse(r, -EBADMSG);
	if (!merge_adds(r))
		return;
	key.event = merge_word(r, does(event, api));
	key.api = merge_word(r, api);
	key.line = merge_word(r, line ?: "");
	to = merge_row(r, &r->merge->lines, &key, sizeof(key), NULL);
	if (!to)
		return;
	merge_sum_count(&to->calls, calls);
	merge_sum_count(&to->total_ns, ns);
	merge_sum_count(&to->bytes, bytes);
	merge_sum_count(&to->stacks, stacks);
	merge_sum_count(&to->stacks_ns, stacks_ns);
	merge_sum_count(&to->stacks_bytes, stacks_bytes);
	/* An older daemon's. */
	if (!json_object_get(row, "stacks_ns"))
		r->merge->lines_unknown = true;
	to->sampled = to->sampled || sampled;
}

/* Sites that read alike, as two addresses in one line do, are one row: sums within a document. */
static void add_site(struct reading *r, const json_t *row)
{
	const char *line = json_fields__text(&r->fields, row, "line", NULL);
	struct site_key key = { .pid = json_fields__integer(&r->fields, row, "pid"),
				.host = json_fields__flag(&r->fields, row, "host", false) };
	uint64_t allocations = json_fields__count(&r->fields, row, "allocations"),
		 frees = json_fields__count(&r->fields, row, "frees"),
		 bytes = json_fields__count(&r->fields, row, "bytes");
	int64_t current = json_fields__integer(&r->fields, row, "current_bytes"),
		peak = json_fields__integer(&r->fields, row, "peak_bytes");
	struct site_row *to;

	key.stack = merge_stack(r, row);
	if (!merge_adds(r))
		return;
	key.line = merge_word(r, line);
	to = merge_row(r, &r->merge->sites, &key, sizeof(key), NULL);
	if (!to)
		return;
	if (to->document != r->merge->n_documents) {
		if (!to->document)
			to->peak_before = INT64_MIN;
		else if (to->peak_bytes > to->peak_before)
			to->peak_before = to->peak_bytes;
		to->current_bytes = to->peak_bytes = 0;
		to->document = r->merge->n_documents;
	}
	merge_sum_count(&to->allocations, allocations);
	merge_sum_count(&to->frees, frees);
	merge_sum_count(&to->bytes, bytes);
	merge_sum_signed(&to->current_bytes, current);
	merge_sum_signed(&to->peak_bytes, peak);
}

static void add_device(struct reading *r, const json_t *row)
{
	const char *name = json_fields__text(&r->fields, row, "name", NULL),
		   *uuid = json_fields__text(&r->fields, row, "uuid", NULL),
		   *problem = json_fields__text(&r->fields, row, "problem", NULL);
	struct device_key key = { .index = json_fields__integer(&r->fields, row, "index") };
	double seconds = json_fields__number(&r->fields, row, "seconds", CUDA_MERGE_MAX_SECONDS, r->duration_s),
	       process_seconds =
		       json_fields__number(&r->fields, row, "process_seconds", CUDA_MERGE_MAX_SECONDS, r->duration_s),
	       busy = json_fields__number(&r->fields, row, "utilisation_percent", 100, -1),
	       memory_busy = json_fields__number(&r->fields, row, "memory_utilisation_percent", 100, -1),
	       own = json_fields__number(&r->fields, row, "process_utilisation_percent", 100, -1),
	       used = json_fields__number(&r->fields, row, "memory_used_bytes", 1e19, -1),
	       total = json_fields__number(&r->fields, row, "memory_total_bytes", 1e19, -1),
	       own_bytes = json_fields__number(&r->fields, row, "process_memory_bytes", 1e19, -1);
	uint64_t samples = json_fields__count(&r->fields, row, "samples");
	struct device_row *to;

	if (!merge_adds(r))
		return;
	key.uuid = merge_word(r, uuid ?: "");
	to = merge_row(r, &r->merge->devices, &key, sizeof(key), NULL);
	if (!to)
		return;
	to->name = merge_word(r, name ?: "");
	to->problem = merge_word(r, problem);
	merge_sum_mean(&to->utilisation, busy, seconds);
	merge_sum_mean(&to->memory_utilisation, memory_busy, seconds);
	merge_sum_mean(&to->process_utilisation, own, process_seconds);
	to->memory_used = used;
	to->memory_total = total;
	to->process_memory = own_bytes;
	merge_sum_count(&to->samples, samples);
}

void merge_each(struct reading *r, const json_t *owner, const char *key, void (*take)(struct reading *, const json_t *))
{
	const json_t *rows = json_fields__list(&r->fields, owner, key, CUDA_MERGE_MAX_ROWS), *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (!json_is_object(row))
			merge_refuse(r, -EBADMSG);
		if (r->fields.ret)
			return;
		take(r, row);
	}
}

void merge_rows(struct reading *r, const json_t *document)
{
	merge_each(r, document, "libraries", add_library);
	merge_each(r, document, "calls", add_call);
	merge_each(r, document, "errors", add_error);
	merge_each(r, document, "lines", add_line);
	merge_each(r, document, "allocations", add_site);
}

void merge_devices(struct reading *r, const json_t *gpu)
{
	merge_each(r, gpu, "devices", add_device);
}
