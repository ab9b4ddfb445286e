// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sum as a document. Values may be NULL on the way, for want of memory: jansson's functions then fail, and release.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_line_totals.h"
#include "daemon/history/cuda_merge_internal.h"

#define COMPARE(a, b)   \
	if ((a) != (b)) \
	return (a) < (b) ? -1 : 1

CLEANUP_DEFINE(json_t *, json, json_decref)

struct writing {
	const struct cuda_merge *merge;
	bool stored;
	json_t **texts;     /* one value for each word, made when first used */
	uint32_t *place;    /* of a word in `frames`, plus 1 */
	json_t *frames;     /* NULL in the plain form */
	struct table lines; /* the merge's, with rows of its own */
	bool failed;
};

static void writing__clear(struct writing *w)
{
	for (size_t i = 0; w->texts && i < w->merge->words.n_keys; i++)
		json_decref(w->texts[i]);
	free(w->texts);
	free(w->place);
	free(w->lines.rows);
	json_decref(w->frames);
}

/* New reference; absent: null. */
static json_t *text(struct writing *w, uint32_t word)
{
	if (word == NO_WORD)
		return json_null();
	if (!w->texts[word])
		w->texts[word] = json_string(intern__key(&w->merge->words, word));
	return json_incref(w->texts[word]);
}

/* Takes the value; NULL is no memory. */
static void append(struct writing *w, json_t *array, json_t *value)
{
	if (!value || json_array_append_new(array, value))
		w->failed = true;
}

static json_t *frame(struct writing *w, uint32_t word)
{
	if (!w->stored)
		return text(w, word);
	if (!w->place[word]) {
		append(w, w->frames, text(w, word));
		w->place[word] = (uint32_t)json_array_size(w->frames);
	}
	return json_integer((json_int_t)w->place[word] - 1);
}

static json_t *stack(struct writing *w, uint32_t number)
{
	const uint32_t *words = intern__key(&w->merge->stacks, number);
	size_t n = intern__length(&w->merge->stacks, number) / sizeof(*words);
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		append(w, array, frame(w, words[i]));
	return array;
}

static json_int_t whole(uint64_t value)
{
	return value <= INT64_MAX ? (json_int_t)value : INT64_MAX;
}

static json_t *known_or_null(double value)
{
	return value < 0 ? json_null() : json_real(value);
}

static json_t *mean(const struct mean *of)
{
	return of->weight > 0 ? json_real(of->sum / of->weight) : json_null();
}

/* Percentages: rounding must not lead beyond what the reader takes. */
static json_t *share(const struct mean *of, double most)
{
	double value = of->weight > 0 ? of->sum / of->weight : -1;

	return known_or_null(value > most ? most : value);
}

/* Order. */

struct place {
	uint64_t first, second; /* fall */
	uint32_t number;        /* rises: the order in which they came */
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	COMPARE(y->first, x->first);
	COMPARE(y->second, x->second);
	COMPARE(x->number, y->number);
	return 0;
}

static void call_place(const struct table *t, size_t i, struct place *out)
{
	out->first = ((const struct call_row *)table_row(t, i))->total_ns;
}

static void error_place(const struct table *t, size_t i, struct place *out)
{
	out->first = ((const struct error_row *)table_row(t, i))->count;
}

static void line_place(const struct table *t, size_t i, struct place *out)
{
	out->first = ((const struct line_row *)table_row(t, i))->total_ns;
}

static void site_place(const struct table *t, size_t i, struct place *out)
{
	const struct site_row *row = table_row(t, i);

	out->first = row->bytes;
	out->second = row->current_bytes > 0 ? (uint64_t)row->current_bytes : 0;
}

/* Rows. */

static json_t *library(struct writing *w, size_t i)
{
	const struct library_key *key = table_key(&w->merge->libraries, i);

	return json_pack("{s:I, s:I, s:o, s:o, s:b, s:[]}", "id", (json_int_t)i + 1, "pid", (json_int_t)key->pid,
			 "path", text(w, key->path), "kind", text(w, key->kind), "static", (int)key->is_static,
			 "probes");
}

static json_int_t library_id(uint32_t number)
{
	return number == NO_LIBRARY ? 0 : (json_int_t)number + 1;
}

static json_t *histogram(struct writing *w, const struct call_row *row)
{
	json_t *array = json_array();

	for (size_t i = 0; i < row->n_buckets; i++) {
		const struct bucket *b = &row->buckets[i];

		append(w, array,
		       json_pack("[I, I, I]", whole(b->lower_ns), whole(latency_width(latency_octave(b->lower_ns))),
				 whole(b->count)));
	}
	return array;
}

static json_t *three(const uint32_t *values)
{
	return json_pack("[I, I, I]", (json_int_t)values[0], (json_int_t)values[1], (json_int_t)values[2]);
}

static json_t *call(struct writing *w, size_t i)
{
	const struct call_key *key = table_key(&w->merge->calls, i);
	const struct call_row *row = table_row(&w->merge->calls, i);

	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:I, "
			 "s:I, s:I, s:o, s:o, s:o, s:o}",
			 "api", text(w, key->api), "kind", text(w, key->kind), "library", library_id(key->library),
			 "pid", (json_int_t)key->pid, "tid", (json_int_t)key->tid, "comm", text(w, row->comm), "kernel",
			 text(w, key->kernel), "kernel_address", text(w, row->address), "direction",
			 text(w, key->direction), "calls", whole(row->calls), "errors", whole(row->errors), "total_ns",
			 whole(row->total_ns), "min_ns", whole(row->min_ns), "max_ns", whole(row->max_ns),
			 "squares_ns2", row->squares_ns2, "bytes", whole(row->bytes), "blocks", whole(row->blocks),
			 "threads", whole(row->threads), "grid", three(row->grid), "block", three(row->block), "stream",
			 text(w, row->stream), "histogram", histogram(w, row));
}

static json_t *error(struct writing *w, size_t i)
{
	const struct error_key *key = table_key(&w->merge->errors, i);
	const struct error_row *row = table_row(&w->merge->errors, i);

	return json_pack("{s:o, s:I, s:I, s:I, s:I}", "api", text(w, key->api), "library", library_id(key->library),
			 "pid", (json_int_t)key->pid, "code", (json_int_t)key->code, "count", whole(row->count));
}

static json_t *line(struct writing *w, size_t i)
{
	const struct line_key *key = table_key(&w->lines, i);
	const struct line_row *row = table_row(&w->lines, i);
	json_t *line = json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:b}", "event",
				 text(w, key->event), "api", text(w, key->api), "pid", (json_int_t)key->pid, "tid",
				 (json_int_t)key->tid, "line", text(w, key->line), "stack", stack(w, key->stack),
				 "calls", whole(row->calls), "total_ns", whole(row->total_ns), "bytes",
				 whole(row->bytes), "stacks", whole(row->stacks), "sampled", (int)row->sampled);

	if (line && w->stored && !w->merge->lines_unknown &&
	    (json_object_set_new(line, "stacks_ns", json_integer(whole(row->stacks_ns))) ||
	     json_object_set_new(line, "stacks_bytes", json_integer(whole(row->stacks_bytes)))))
		w->failed = true;
	return line;
}

static json_t *site(struct writing *w, size_t i)
{
	const struct site_key *key = table_key(&w->merge->sites, i);
	const struct site_row *row = table_row(&w->merge->sites, i);
	int64_t peak = row->peak_bytes > row->peak_before ? row->peak_bytes : row->peak_before;

	return json_pack("{s:I, s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I}", "pid", (json_int_t)key->pid, "line",
			 text(w, key->line), "stack", stack(w, key->stack), "host", (int)key->host, "allocations",
			 whole(row->allocations), "frees", whole(row->frees), "bytes", whole(row->bytes),
			 "current_bytes", (json_int_t)row->current_bytes, "peak_bytes", (json_int_t)peak);
}

static json_t *device(struct writing *w, size_t i)
{
	const struct device_key *key = table_key(&w->merge->devices, i);
	const struct device_row *row = table_row(&w->merge->devices, i);
	json_t *json = json_pack(
		"{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "index", (json_int_t)key->index, "name",
		text(w, row->name), "uuid", text(w, key->uuid), "utilisation_percent", share(&row->utilisation, 100),
		"memory_utilisation_percent", share(&row->memory_utilisation, 100), "process_utilisation_percent",
		share(&row->process_utilisation, 100), "memory_used_bytes", known_or_null(row->memory_used),
		"memory_total_bytes", known_or_null(row->memory_total), "process_memory_bytes",
		known_or_null(row->process_memory), "samples", whole(row->samples), "problem", text(w, row->problem));

	if (w->stored && (json_object_set_new(json, "seconds", json_real(row->utilisation.weight)) ||
			  json_object_set_new(json, "process_seconds", json_real(row->process_utilisation.weight))))
		w->failed = true;
	return json;
}

/* place: NULL: in the order in which they came. */
static json_t *rows(struct writing *w, const struct table *table,
		    void (*place)(const struct table *, size_t, struct place *),
		    json_t *(*row)(struct writing *, size_t))
{
	_cleanup_free_ struct place *places = calloc(table_size(table) + 1, sizeof(*places));
	json_t *array = json_array();

	if (!places || !array)
		w->failed = true;
	for (size_t i = 0; !w->failed && i < table_size(table); i++) {
		places[i].number = (uint32_t)i;
		if (place)
			place(table, i, &places[i]);
	}
	if (places)
		qsort(places, table_size(table), sizeof(*places), compare_places);
	for (size_t i = 0; !w->failed && i < table_size(table); i++)
		append(w, array, row(w, places[i].number));
	return array;
}

/* The rest. */

static json_t *problems(struct writing *w)
{
	json_t *array = json_array();

	for (size_t i = 0; i < w->merge->problems.n_keys; i++)
		append(w, array, json_string(intern__key(&w->merge->problems, i)));
	return array;
}

static json_t *probes(struct writing *w)
{
	const struct cuda_merge *m = w->merge;

	if (!m->probes)
		return json_null();
	return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "installed",
			 whole(m->installed), "kind", text(w, m->probe_kind), "floor_ns", whole(m->floor_ns), "hits",
			 whole(m->hits), "returns", whole(m->returns), "nested", whole(m->nested), "stacks",
			 whole(m->stacks_taken), "cost_ns_per_call", known_or_null(m->cost_ns), "overhead_percent",
			 mean(&m->overhead), "budget_percent", known_or_null(m->budget_percent), "state",
			 cuda_merge_states[m->state], "rungs", json_copy(m->rungs), "stack_period",
			 json_copy(m->periods), "stack_time_ns", json_copy(m->stack_times));
}

static json_t *gpu(struct writing *w)
{
	const struct cuda_merge *m = w->merge;

	if (!m->gpu)
		return json_null();
	return json_pack("{s:o, s:o, s:I}", "driver", text(w, m->driver), "devices", rows(w, &m->devices, NULL, device),
			 "devices_left_out", (json_int_t)m->devices_left_out);
}

static json_t *estimate(const struct cuda_merge *m)
{
	json_t *estimate = cuda_estimates__json(&m->estimates);

	if (m->intervals_unknown) {
		json_object_set_new(estimate, "interval", json_null());
		json_object_del(estimate, "by_api");
	}
	return estimate;
}

static json_t *document(struct writing *w)
{
	const struct cuda_merge *m = w->merge;
	_cleanup_(json) json_t *root = json_pack(
		"{s:I, s:o, s:f, s:f, s:b, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pid",
		(json_int_t)m->pid, "comm", text(w, m->comm), "duration_s", m->duration_s, "cpu_s", m->cpu_s,
		"estimated", (int)m->estimated, "estimate", estimate(m), "available", (int)m->available, "problems",
		problems(w), "probes", probes(w), "lost", json_copy(m->lost), "libraries",
		rows(w, &m->libraries, NULL, library), "calls", rows(w, &m->calls, call_place, call), "errors",
		rows(w, &m->errors, error_place, error), "lines", rows(w, &w->lines, line_place, line), "allocations",
		rows(w, &m->sites, site_place, site), "in_progress", json_copy(m->in_progress), "gpu", gpu(w),
		"gpu_problem", text(w, m->gpu ? NO_WORD : m->gpu_problem));

	if (!root || w->failed || (w->stored && json_object_set(root, "frames", w->frames)))
		return NULL;
	return TAKE_PTR(root);
}

/* What is missing of the lines is missing of some, and not by chance; or calls were not counted. */
static bool are_lacking(const struct cuda_merge *m)
{
	static const char *const words[] = { "lines-lost", "lines-forgotten", "processes-folded", "stack-full",
					     "calls-map-full" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (json_integer_value(json_object_get(m->lost, words[i])))
			return true;
	return false;
}

static int share_out(const struct cuda_merge *m, struct cuda_line_share *shares)
{
	size_t n_groups = m->words.n_keys;
	_cleanup_free_ struct cuda_line_figures *counted = calloc(n_groups + 1, sizeof(*counted));

	if (!counted)
		return -ENOMEM;
	for (size_t i = 0; i < table_size(&m->calls); i++) {
		const struct call_key *key = table_key(&m->calls, i);
		const struct call_row *row = table_row(&m->calls, i);

		if (key->api >= n_groups)
			continue;
		counted[key->api].calls += (double)row->calls;
		counted[key->api].total_ns += (double)row->total_ns;
		counted[key->api].bytes += (double)row->bytes;
	}
	return cuda_line_totals__apply(shares, table_size(&m->lines), counted, n_groups);
}

/* A double does not hold all whole numbers that a count may be. */
static void replace(uint64_t *count, double figure)
{
	if (figure != (double)*count)
		*count = (uint64_t)fmin(round(figure), 0x1p62);
}

/* Lines that add up to the calls, in rows of the writing's own; in the stored form as they were sampled. */
static int take_lines(struct writing *w)
{
	size_t n = table_size(&w->merge->lines);
	_cleanup_free_ struct cuda_line_share *shares = calloc(n + 1, sizeof(*shares));
	struct line_row *rows = calloc(n + 1, sizeof(*rows));
	int ret = shares && rows ? 0 : -ENOMEM;

	w->lines = w->merge->lines;
	w->lines.rows = (char *)rows;
	for (size_t i = 0; !ret && i < n; i++) {
		rows[i] = *(const struct line_row *)table_row(&w->merge->lines, i);
		shares[i] = (struct cuda_line_share){
			.group = ((const struct line_key *)table_key(&w->lines, i))->api,
			.all = { (double)rows[i].calls, (double)rows[i].total_ns, (double)rows[i].bytes },
			.seen = { (double)rows[i].stacks, (double)rows[i].stacks_ns, (double)rows[i].stacks_bytes },
		};
	}
	if (ret || w->stored || w->merge->lines_unknown || are_lacking(w->merge))
		return ret;
	ret = share_out(w->merge, shares);
	for (size_t i = 0; !ret && i < n; i++) {
		replace(&rows[i].calls, shares[i].all.calls);
		rows[i].sampled |= shares[i].lacks;
		replace(&rows[i].total_ns, shares[i].all.total_ns);
		replace(&rows[i].bytes, shares[i].all.bytes);
	}
	return ret;
}

json_t *cuda_merge__finish(const struct cuda_merge *m, bool stored)
{
	__attribute__((cleanup(writing__clear))) struct writing w = { .merge = m, .stored = stored };

	w.texts = calloc(m->words.n_keys + 1, sizeof(json_t *));
	w.place = calloc(m->words.n_keys + 1, sizeof(*w.place));
	w.frames = json_array();
	return w.texts && w.place && w.frames && !take_lines(&w) ? document(&w) : NULL;
}

json_t *cuda_merge__store(json_t *documents)
{
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	const json_t *document;
	size_t i;

	json_array_foreach (documents, i, document) {
		if (!m || cuda_merge__add(m, document))
			return NULL;
	}
	return m && m->n_documents ? cuda_merge__finish(m, true) : NULL;
}
