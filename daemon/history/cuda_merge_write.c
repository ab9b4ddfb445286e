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

struct writing {
	const struct cuda_merge *merge;
	bool stored;
	uint32_t *place;    /* of a word in `frames`, plus 1 */
	json_t *frames;     /* NULL in the plain form */
	struct table lines; /* the merge's, with rows of its own */
	bool failed;
};

static void writing__clear(struct writing *w)
{
	free(w->place);
	free(w->lines.rows);
	json_decref(w->frames);
}

static json_t *text(const char *value)
{
	return value ? json_string(value) : json_null();
}

/* Takes the value; NULL is no memory. */
static void append(struct writing *w, json_t *array, json_t *value)
{
	if (!value || json_array_append_new(array, value))
		w->failed = true;
}

static json_t *frame(struct writing *w, uint32_t word)
{
	json_t *text = w->merge->texts[word];

	if (!w->stored)
		return json_incref(text);
	if (!w->place[word]) {
		append(w, w->frames, json_incref(text));
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

/* Not above `most`: rounding may lead beyond what a percentage may be. */
static double mean(const struct mean *of, double most)
{
	return of->weight > 0 ? fmin(of->sum / of->weight, most) : NAN;
}

/* Rows. */

static json_t *library(struct writing *w, const void *row)
{
	struct so_cuda_library_row out = *(const struct so_cuda_library_row *)row;

	out.id = merge_library_number(w->merge, row);
	out.probes_json = json_array();
	return so_cuda_row__write(SO_CUDA_ROW_LIBRARY, &out, w->stored);
}

static json_t *call(struct writing *w, const void *row)
{
	const struct call_row *call = row;
	struct so_cuda_call_row out = call->sum;

	out.histogram_json = json_array();
	for (size_t i = 0; i < call->n_buckets; i++)
		append(w, out.histogram_json, so_cuda_bucket__write(&call->buckets[i]));
	return so_cuda_row__write(SO_CUDA_ROW_CALL, &out, w->stored);
}

static json_t *error(struct writing *w, const void *row)
{
	return so_cuda_row__write(SO_CUDA_ROW_ERROR, row, w->stored);
}

static json_t *line(struct writing *w, const void *row)
{
	const struct line_row *line = row;
	struct so_cuda_line_row out = line->sum;

	out.stack_json = stack(w, line->stack);
	return so_cuda_row__write(SO_CUDA_ROW_LINE, &out, w->stored && !w->merge->lines_unknown);
}

static json_t *site(struct writing *w, const void *row)
{
	const struct site_row *site = row;
	struct so_cuda_allocation_row out = site->sum;

	out.stack_json = stack(w, site->stack);
	out.current_bytes = site->current_bytes;
	out.peak_bytes = site->peak_bytes > site->peak_before ? site->peak_bytes : site->peak_before;
	return so_cuda_row__write(SO_CUDA_ROW_ALLOCATION, &out, w->stored);
}

static json_t *device(struct writing *w, const void *row)
{
	const struct device_row *device = row;
	struct so_cuda_device_row out = device->sum;

	out.utilisation_percent = mean(&device->utilisation, 100);
	out.memory_utilisation_percent = mean(&device->memory_utilisation, 100);
	out.process_utilisation_percent = mean(&device->process_utilisation, 100);
	out.seconds = device->utilisation.weight;
	out.process_seconds = device->process_utilisation.weight;
	return so_cuda_row__write(SO_CUDA_ROW_DEVICE, &out, w->stored);
}

/* Places in a row of two numbers, by which the rows fall; those that are equal stay as they came. */
struct order {
	size_t first, second;
};

static int compare_rows(const void *a, const void *b, void *data)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	const struct order *order = data;

	COMPARE(*(const int64_t *)(y + order->first), *(const int64_t *)(x + order->first));
	COMPARE(*(const int64_t *)(y + order->second), *(const int64_t *)(x + order->second));
	COMPARE(x, y);
	return 0;
}

/* order: NULL: as they came. */
static json_t *rows(struct writing *w, const struct table *table, struct order *order,
		    json_t *(*row)(struct writing *, const void *))
{
	size_t n = table_size(table);
	_cleanup_free_ const void **sorted = calloc(n + 1, sizeof(*sorted));
	json_t *array = json_array();

	if (!sorted || !array)
		w->failed = true;
	for (size_t i = 0; !w->failed && i < n; i++)
		sorted[i] = table_row(table, i);
	if (!w->failed && order)
		qsort_r(sorted, n, sizeof(*sorted), compare_rows, order);
	for (size_t i = 0; !w->failed && i < n; i++)
		append(w, array, row(w, sorted[i]));
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
	struct so_cuda_probes_row out = m->probes;

	if (!m->has_probes)
		return json_null();
	out.overhead_percent = mean(&m->overhead, HUGE_VAL);
	out.state = cuda_merge_states[m->state];
	out.rungs_json = json_copy(m->rungs);
	out.stack_period_json = json_copy(m->periods);
	out.stack_time_ns_json = json_copy(m->stack_times);
	return so_cuda_row__write(SO_CUDA_ROW_PROBES, &out, w->stored);
}

static json_t *gpu(struct writing *w)
{
	const struct cuda_merge *m = w->merge;

	if (!m->gpu)
		return json_null();
	return json_pack("{s:o, s:o, s:I}", "driver", text(m->driver), "devices",
			 rows(w, &m->tables[SO_CUDA_ROW_DEVICE], NULL, device), "devices_left_out",
			 (json_int_t)m->devices_left_out);
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
	static struct order calls = { offsetof(struct so_cuda_call_row, total_ns),
				      offsetof(struct so_cuda_call_row, total_ns) },
			    errors = { offsetof(struct so_cuda_error_row, count),
				       offsetof(struct so_cuda_error_row, count) },
			    lines = { offsetof(struct so_cuda_line_row, total_ns),
				      offsetof(struct so_cuda_line_row, total_ns) },
			    sites = { offsetof(struct so_cuda_allocation_row, bytes),
				      offsetof(struct site_row, current_bytes) };
	const struct cuda_merge *m = w->merge;
	const struct table *t = m->tables;
	_cleanup_(json) json_t *root = so_cuda_row__write(SO_CUDA_ROW_HEAD, &m->head, w->stored);
	_cleanup_(json) json_t *parts = json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "estimate", estimate(m), "problems",
		problems(w), "probes", probes(w), "lost", json_copy(m->lost), "libraries",
		rows(w, &t[SO_CUDA_ROW_LIBRARY], NULL, library), "calls", rows(w, &t[SO_CUDA_ROW_CALL], &calls, call),
		"errors", rows(w, &t[SO_CUDA_ROW_ERROR], &errors, error), "lines", rows(w, &w->lines, &lines, line),
		"allocations", rows(w, &t[SO_CUDA_ROW_ALLOCATION], &sites, site), "in_progress",
		json_copy(m->in_progress), "gpu", gpu(w), "gpu_problem", text(m->gpu ? NULL : m->gpu_problem));

	if (!parts || json_object_update(root, parts) || w->failed ||
	    (w->stored && json_object_set(root, "frames", w->frames)))
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

/* Lines and calls of one API are a group. */
static uint32_t group_of(const struct cuda_merge *m, const char *api)
{
	uint32_t word = 0;

	intern__find(&m->words, api, strlen(api) + 1, &word);
	return word;
}

static int share_out(const struct cuda_merge *m, struct cuda_line_share *shares)
{
	size_t n_groups = m->words.n_keys;
	_cleanup_free_ struct cuda_line_figures *counted = calloc(n_groups + 1, sizeof(*counted));

	if (!counted)
		return -ENOMEM;
	for (size_t i = 0; i < table_size(&m->tables[SO_CUDA_ROW_CALL]); i++) {
		const struct so_cuda_call_row *row = table_row(&m->tables[SO_CUDA_ROW_CALL], i);
		struct cuda_line_figures *of = &counted[group_of(m, row->api)];

		of->calls += (double)row->calls;
		of->total_ns += (double)row->total_ns;
		of->bytes += (double)row->bytes;
	}
	return cuda_line_totals__apply(shares, table_size(&m->tables[SO_CUDA_ROW_LINE]), counted, n_groups);
}

/* A double does not hold all whole numbers that a count may be. */
static void replace(uint64_t *count, double figure)
{
	if (figure != (double)*count)
		*count = (uint64_t)fmin(round(figure), 0x1p62);
}

/* Of a figure that becomes another. */
static void replace_part(uint64_t *part, double before, double after)
{
	if (before != after)
		replace(part, cuda_line_totals__part((double)*part, before, after));
}

/* Lines that add up to the calls, in rows of the writing's own; in the stored form as they were sampled. */
static int take_lines(struct writing *w)
{
	size_t n = table_size(&w->merge->tables[SO_CUDA_ROW_LINE]);
	_cleanup_free_ struct cuda_line_share *shares = calloc(n + 1, sizeof(*shares));
	struct line_row *rows = calloc(n + 1, sizeof(*rows));
	int ret = shares && rows ? 0 : -ENOMEM;

	w->lines = w->merge->tables[SO_CUDA_ROW_LINE];
	w->lines.rows = (char *)rows;
	for (size_t i = 0; !ret && i < n; i++) {
		const struct so_cuda_line_row *row = &rows[i].sum;

		rows[i] = *(const struct line_row *)table_row(&w->merge->tables[SO_CUDA_ROW_LINE], i);
		shares[i] = (struct cuda_line_share){
			.group = group_of(w->merge, row->api),
			.all = { (double)row->calls, (double)row->total_ns, (double)row->bytes },
			.seen = { (double)row->stacks, (double)row->stacks_ns, (double)row->stacks_bytes },
		};
	}
	if (ret || w->stored || w->merge->lines_unknown || are_lacking(w->merge))
		return ret;
	ret = share_out(w->merge, shares);
	for (size_t i = 0; !ret && i < n; i++) {
		replace_part(&rows[i].sum.needless, (double)rows[i].sum.calls, shares[i].all.calls);
		replace_part(&rows[i].sum.needless_ns, (double)rows[i].sum.total_ns, shares[i].all.total_ns);
		replace(&rows[i].sum.calls, shares[i].all.calls);
		rows[i].sum.sampled |= shares[i].lacks;
		replace(&rows[i].sum.total_ns, shares[i].all.total_ns);
		replace(&rows[i].sum.bytes, shares[i].all.bytes);
	}
	return ret;
}

json_t *cuda_merge__finish(const struct cuda_merge *m, bool stored)
{
	__attribute__((cleanup(writing__clear))) struct writing w = { .merge = m, .stored = stored };

	w.place = calloc(m->words.n_keys + 1, sizeof(*w.place));
	w.frames = json_array();
	return w.place && w.frames && !take_lines(&w) ? document(&w) : NULL;
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
