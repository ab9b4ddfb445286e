// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_rows.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/os/json_text.h"
#include "stakeout/cuda_names.h"
#include "stakeout/cuda_document.h"

#define COMPARE(a, b)   \
	if ((a) != (b)) \
	return (a) < (b) ? -1 : 1

static const char *const direction_words[] = {
#define X(name, word) [SO_CUDA_DIRECTION_##name] = word,
	SO_CUDA_DIRECTIONS(X)
#undef X
};

static const char *const loss_words[] = {
#define X(name, word, why) [SO_CUDA_LOSS_##name] = word,
	SO_CUDA_LOSSES(X)
#undef X
};

static const char *direction_word(uint32_t direction)
{
	return direction < SO_CUDA_DIRECTION_COUNT ? direction_words[direction] : "unknown";
}

/* A row of calls: entries[first … first + n - 1], which differ in their octaves only. */
struct row {
	const struct so_cuda_key *key;
	size_t first, n;
	struct so_cuda_call_row sum; /* the figures */
	json_t *kernel;              /* of the row or of one like it: shared */
};

struct rows {
	const struct cuda_calls_entry **entries; /* sorted by key */
	struct row *rows;
	size_t n;
};

static void rows__release(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		json_decref(rows->rows[i].kernel);
	free(rows->entries);
	free(rows->rows);
}

/* The entries of one kernel lie together, so that its name is asked for once. */
static int compare_entries(const void *a, const void *b)
{
	const struct so_cuda_key *x = &(*(const struct cuda_calls_entry *const *)a)->key;
	const struct so_cuda_key *y = &(*(const struct cuda_calls_entry *const *)b)->key;

	COMPARE(x->tgid, y->tgid);
	COMPARE(x->kernel, y->kernel);
	COMPARE(x->tid, y->tid);
	COMPARE(x->api, y->api);
	COMPARE(x->library, y->library);
	COMPARE(x->direction, y->direction);
	COMPARE(x->octave, y->octave);
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	COMPARE(y->sum.total_ns, x->sum.total_ns);
	COMPARE(x->key->tgid, y->key->tgid);
	COMPARE(x->key->tid, y->key->tid);
	COMPARE(x->key->api, y->key->api);
	COMPARE(x->key->library, y->key->library);
	COMPARE(x->key->kernel, y->key->kernel);
	COMPARE(x->key->direction, y->key->direction);
	return 0;
}

static bool same_row(const struct so_cuda_key *a, const struct so_cuda_key *b)
{
	struct so_cuda_key x = *a, y = *b;

	x.octave = y.octave = 0;
	return !memcmp(&x, &y, sizeof(x));
}

static bool takes(const struct cuda_rows_world *world, uint32_t tgid)
{
	return !world->takes || world->takes(world->data, tgid);
}

/* New reference, null for a name that is not known; NULL: no memory. */
static json_t *kernel_name(const struct cuda_rows_world *world, const struct so_cuda_key *key)
{
	const char *name = key->kernel && world->kernel ? world->kernel(world->data, key->tgid, key->kernel) : NULL;

	return name ? json_text__new(name) : json_null();
}

static void row__add(struct row *row, const struct cuda_calls_entry *entry, uint64_t most_calls)
{
	const struct so_cuda_calls *calls = &entry->calls;
	struct so_cuda_call_row *sum = &row->sum;

	if (!row->n || calls->min_ns < sum->min_ns)
		sum->min_ns = calls->min_ns;
	if (calls->max_ns > sum->max_ns)
		sum->max_ns = calls->max_ns;
	if (!row->n || calls->calls > most_calls) {
		memcpy(sum->grid, calls->grid, sizeof(sum->grid));
		memcpy(sum->block, calls->block, sizeof(sum->block));
		sum->stream = calls->stream;
	}
	sum->calls += calls->calls;
	sum->errors += calls->errors;
	sum->total_ns += calls->total_ns;
	sum->bytes += calls->bytes;
	sum->blocks += calls->blocks;
	sum->threads += calls->threads;
	sum->squares_ns2 += ldexp((double)calls->squares, 2 * (int)latency_square_shift(entry->key.octave));
	row->n++;
}

/* One row; the entries from `first` on that belong to it. */
static void row__fill(struct row *row, const struct cuda_calls_entry *const *entries, size_t first, size_t n)
{
	uint64_t most_calls = 0;

	row->key = &entries[first]->key;
	row->first = first;
	for (size_t i = first; i < n && same_row(&entries[i]->key, row->key); i++) {
		row__add(row, entries[i], most_calls);
		if (entries[i]->calls.calls > most_calls)
			most_calls = entries[i]->calls.calls;
	}
}

static int rows__fill(struct rows *rows, const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world)
{
	const struct cuda_calls_entry *all;
	size_t n_all, n = 0;

	all = cuda_snapshot__calls(snapshot, &n_all);
	rows->entries = calloc(n_all + 1, sizeof(*rows->entries));
	rows->rows = calloc(n_all + 1, sizeof(*rows->rows));
	if (!rows->entries || !rows->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n_all; i++)
		if (all[i].calls.calls && takes(world, all[i].key.tgid))
			rows->entries[n++] = &all[i];
	qsort(rows->entries, n, sizeof(*rows->entries), compare_entries);
	for (size_t first = 0; first < n; first += rows->rows[rows->n - 1].n) {
		struct row *row = &rows->rows[rows->n], *last = rows->n ? row - 1 : NULL;

		row__fill(row, rows->entries, first, n);
		if (last && last->key->tgid == row->key->tgid && last->key->kernel == row->key->kernel)
			row->kernel = json_incref(last->kernel);
		else
			row->kernel = kernel_name(world, row->key);
		rows->n++;
		if (!row->kernel)
			return -ENOMEM;
	}
	qsort(rows->rows, rows->n, sizeof(*rows->rows), compare_rows);
	return 0;
}

/* Takes the reference `value`, which may be NULL. */
static int append(json_t *array, json_t *value)
{
	return value && !json_array_append_new(array, value) ? 0 : -ENOMEM;
}

static json_t *histogram(const struct cuda_calls_entry *const *entries, size_t n)
{
	_cleanup_(json) json_t *buckets = json_array();

	for (size_t i = 0; buckets && i < n; i++) {
		uint32_t octave = entries[i]->key.octave;

		for (uint32_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
			uint64_t count = entries[i]->calls.buckets[bucket];

			if (count &&
			    append(buckets, so_cuda_bucket__write(&(struct cuda_bucket){
						    .index = octave * LATENCY_BUCKETS + bucket, .count = count })))
				return NULL;
		}
	}
	return TAKE_PTR(buckets);
}

static json_t *comm_text(const struct cuda_rows_world *world, const struct so_cuda_key *key)
{
	const char *comm = world->comm ? world->comm(world->data, key->tgid, key->tid) : NULL;

	return json_text__new(comm ? comm : "");
}

static json_t *row__json(const struct rows *rows, const struct row *row, const struct cuda_rows_world *world)
{
	const struct so_cuda_key *key = row->key;
	_cleanup_(json) json_t *comm = comm_text(world, key);
	struct so_cuda_call_row out = row->sum;

	if (!comm)
		return NULL;
	out.api = cuda_names__api(key->api);
	out.kind_word = cuda_names__does(key->api);
	out.library_id = key->library;
	out.pid = key->tgid;
	out.tid = key->tid;
	out.comm = json_string_value(comm);
	out.kernel = json_string_value(row->kernel);
	out.kernel_address = key->kernel;
	out.direction = direction_word(key->direction);
	out.histogram_json = histogram(rows->entries + row->first, row->n);
	return so_cuda_row__write(SO_CUDA_ROW_CALL, &out, false);
}

json_t *cuda_rows__calls(const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world)
{
	__attribute__((cleanup(rows__release))) struct rows rows = { 0 };
	_cleanup_(json) json_t *array = json_array();

	if (!array || rows__fill(&rows, snapshot, world) < 0)
		return NULL;
	for (size_t i = 0; i < rows.n; i++)
		if (append(array, row__json(&rows, &rows.rows[i], world)) < 0)
			return NULL;
	return TAKE_PTR(array);
}

static int compare_errors(const void *a, const void *b)
{
	const struct cuda_error_entry *x = *(const struct cuda_error_entry *const *)a;
	const struct cuda_error_entry *y = *(const struct cuda_error_entry *const *)b;

	COMPARE(y->count, x->count);
	COMPARE(x->key.tgid, y->key.tgid);
	COMPARE(x->key.api, y->key.api);
	COMPARE(x->key.library, y->key.library);
	COMPARE(x->key.code, y->key.code);
	return 0;
}

json_t *cuda_rows__errors(const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world)
{
	_cleanup_free_ const struct cuda_error_entry **sorted = NULL;
	_cleanup_(json) json_t *array = json_array();
	const struct cuda_error_entry *all;
	size_t n_all, n = 0;

	all = cuda_snapshot__errors(snapshot, &n_all);
	sorted = calloc(n_all + 1, sizeof(*sorted));
	if (!array || !sorted)
		return NULL;
	for (size_t i = 0; i < n_all; i++)
		if (all[i].count && takes(world, all[i].key.tgid))
			sorted[n++] = &all[i];
	qsort(sorted, n, sizeof(*sorted), compare_errors);
	for (size_t i = 0; i < n; i++) {
		const struct so_cuda_error_key *key = &sorted[i]->key;
		struct so_cuda_error_row row = { .api = cuda_names__api(key->api),
						 .library_id = key->library,
						 .pid = key->tgid,
						 .code = key->code,
						 .count = sorted[i]->count };

		if (append(array, so_cuda_row__write(SO_CUDA_ROW_ERROR, &row, false)) < 0)
			return NULL;
	}
	return TAKE_PTR(array);
}

static int compare_sites(const void *a, const void *b)
{
	const struct cuda_site_entry *x = *(const struct cuda_site_entry *const *)a;
	const struct cuda_site_entry *y = *(const struct cuda_site_entry *const *)b;

	COMPARE(y->site.bytes, x->site.bytes);
	COMPARE(y->site.current_bytes, x->site.current_bytes);
	COMPARE(x->key.tgid, y->key.tgid);
	COMPARE(x->key.host, y->key.host);
	COMPARE(x->key.stack, y->key.stack);
	return 0;
}

static json_t *site__json(const struct cuda_site_entry *entry, const struct cuda_rows_world *world)
{
	const struct so_cuda_site *site = &entry->site;
	json_t *frames = NULL;
	const char *line = world->site ? world->site(world->data, entry->key.tgid, entry->key.stack, &frames) : NULL;
	struct so_cuda_allocation_row row = { .pid = entry->key.tgid,
					      .line = line,
					      .stack_json = frames ?: json_array(),
					      .host = entry->key.host != 0,
					      .allocations = site->allocations,
					      .frees = site->frees,
					      .bytes = site->bytes,
					      .current_bytes = site->current_bytes,
					      .peak_bytes = site->peak_bytes };

	return so_cuda_row__write(SO_CUDA_ROW_ALLOCATION, &row, false);
}

json_t *cuda_rows__allocations(const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world)
{
	_cleanup_free_ const struct cuda_site_entry **sorted = NULL;
	_cleanup_(json) json_t *array = json_array();
	const struct cuda_site_entry *all;
	size_t n_all, n = 0;

	all = cuda_snapshot__sites(snapshot, &n_all);
	sorted = calloc(n_all + 1, sizeof(*sorted));
	if (!array || !sorted)
		return NULL;
	for (size_t i = 0; i < n_all; i++)
		if (takes(world, all[i].key.tgid))
			sorted[n++] = &all[i];
	qsort(sorted, n, sizeof(*sorted), compare_sites);
	for (size_t i = 0; i < n; i++)
		if (append(array, site__json(sorted[i], world)) < 0)
			return NULL;
	return TAKE_PTR(array);
}

json_t *cuda_rows__lost(const struct so_cuda_slot *slot)
{
	_cleanup_(json) json_t *lost = json_object();

	for (unsigned i = 0; lost && i < SO_CUDA_LOSS_COUNT; i++)
		if (json_object_set_new(lost, loss_words[i], json_integer((json_int_t)slot->lost[i])))
			return NULL;
	return TAKE_PTR(lost);
}
