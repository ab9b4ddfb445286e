// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "daemon/os/json_text.h"
#include "daemon/cuda/cuda_names.h"

#define COMPARE(a, b)   \
	if ((a) != (b)) \
	return (a) < (b) ? -1 : 1

CLEANUP_DEFINE(json_t *, json, json_decref)

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

const char *cuda_rows__api(uint32_t api)
{
	return api < SO_CUDA_API_COUNT ? cuda_names__api(api) : "unknown";
}

const char *cuda_rows__kind(uint32_t api)
{
	return api < SO_CUDA_API_COUNT ? cuda_names__does(api) : "unknown";
}

const char *cuda_rows__direction(uint32_t direction)
{
	return direction < SO_CUDA_DIRECTION_COUNT ? direction_words[direction] : "unknown";
}

static json_int_t whole(uint64_t value)
{
	return value <= INT64_MAX ? (json_int_t)value : INT64_MAX;
}

/* A row of calls: entries[first … first + n - 1], which differ in their octaves only. */
struct row {
	const struct so_cuda_key *key;
	size_t first, n;
	struct so_cuda_calls sum; /* its buckets and squares are not used */
	double squares_ns2;
	json_t *kernel; /* of the row or of one like it: shared */
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
	struct so_cuda_calls *sum = &row->sum;

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
	row->squares_ns2 += ldexp((double)calls->squares, 2 * (int)latency_square_shift(entry->key.octave));
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

			if (count && append(buckets, json_pack("[I, I, I]", whole(latency_lower(octave, bucket)),
							       whole(latency_width(octave)), whole(count))))
				return NULL;
		}
	}
	return TAKE_PTR(buckets);
}

static json_t *hexadecimal(uint64_t value)
{
	char text[19];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

static json_t *three(const uint32_t *values)
{
	return json_pack("[I, I, I]", (json_int_t)values[0], (json_int_t)values[1], (json_int_t)values[2]);
}

static json_t *comm_text(const struct cuda_rows_world *world, const struct so_cuda_key *key)
{
	const char *comm = world->comm ? world->comm(world->data, key->tgid, key->tid) : NULL;

	return json_text__new(comm ? comm : "");
}

/* json_pack() fails, and releases what it was given, when one of the references is NULL. */
static json_t *row__json(const struct rows *rows, const struct row *row, const struct cuda_rows_world *world)
{
	const struct so_cuda_key *key = row->key;
	const struct so_cuda_calls *sum = &row->sum;

	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:O, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, "
			 "s:o, s:o, s:o, s:o}",
			 "api", cuda_rows__api(key->api), "kind", cuda_rows__kind(key->api), "library",
			 (json_int_t)key->library, "pid", (json_int_t)key->tgid, "tid", (json_int_t)key->tid, "comm",
			 comm_text(world, key), "kernel", row->kernel, "kernel_address",
			 key->kernel ? hexadecimal(key->kernel) : json_null(), "direction",
			 cuda_rows__direction(key->direction), "calls", whole(sum->calls), "errors", whole(sum->errors),
			 "total_ns", whole(sum->total_ns), "min_ns", whole(sum->min_ns), "max_ns", whole(sum->max_ns),
			 "squares_ns2", row->squares_ns2, "bytes", whole(sum->bytes), "blocks", whole(sum->blocks),
			 "threads", whole(sum->threads), "grid", three(sum->grid), "block", three(sum->block), "stream",
			 hexadecimal(sum->stream), "histogram", histogram(rows->entries + row->first, row->n));
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

		if (append(array, json_pack("{s:s, s:I, s:I, s:I, s:I}", "api", cuda_rows__api(key->api), "library",
					    (json_int_t)key->library, "pid", (json_int_t)key->tgid, "code",
					    (json_int_t)key->code, "count", whole(sorted[i]->count))) < 0)
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

/* A new reference to what the world knows of the site, or else to `otherwise`, which is taken. */
static json_t *known(json_t *place, const char *field, json_t *otherwise)
{
	json_t *value = json_object_get(place, field);

	if (!value)
		return otherwise;
	json_decref(otherwise);
	return json_incref(value);
}

static json_t *site__json(const struct cuda_site_entry *entry, const struct cuda_rows_world *world)
{
	const struct so_cuda_site *site = &entry->site;
	_cleanup_(json) json_t *place = NULL;

	place = world->site ? world->site(world->data, entry->key.tgid, entry->key.stack) : NULL;
	return json_pack("{s:I, s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I}", "pid", (json_int_t)entry->key.tgid, "line",
			 known(place, "line", json_null()), "stack", known(place, "stack", json_array()), "host",
			 (int)(entry->key.host != 0), "allocations", whole(site->allocations), "frees",
			 whole(site->frees), "bytes", whole(site->bytes), "current_bytes",
			 (json_int_t)site->current_bytes, "peak_bytes", (json_int_t)site->peak_bytes);
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
		if (json_object_set_new(lost, loss_words[i], json_integer(whole(slot->lost[i]))))
			return NULL;
	return TAKE_PTR(lost);
}
