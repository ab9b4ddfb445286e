// SPDX-License-Identifier: GPL-2.0-or-later
#include "cuda/cuda_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/arena.h"
#include "profile/text.h"
#include "stakeout/array.h"
#include "stakeout/cuda_names.h"
#include "stakeout/intern.h"

#define MAX_PROBLEMS 1024

/*
 * An answer on its way into the report. The first member that is not what it must be ends the reading
 * (stakeout/json_fields.h).
 */
struct reading {
	struct json_fields fields;
	struct cuda_report *report;
	struct intern texts;  /* as they came, */
	const char **cleaned; /* and cleaned, by the same number */
	size_t cleaned_capacity;
	struct text text;
};

static void reading__clear(struct reading *r)
{
	intern__clear(&r->texts);
	text__clear(&r->text);
	free(r->cleaned);
}

static void no_memory(struct reading *r)
{
	if (r->fields.ret)
		return;
	r->fields.ret = arena__error(r->report->arena) ?: -ENOMEM;
	if (r->fields.ret == -EFBIG)
		so_err(r->fields.err, -EFBIG, "%s is too large", r->fields.what);
	else
		so_err(r->fields.err, -ENOMEM, "out of memory");
}

/* Zeroed, in the arena. */
static void *new_array(struct reading *r, size_t n, size_t size)
{
	void *array = r->fields.ret ? NULL : arena__array(r->report->arena, n, size);

	if (array)
		memset(array, 0, n * size);
	else
		no_memory(r);
	return array;
}

/* By text__append_clean(), in the arena. */
static const char *clean(void *data, const char *text)
{
	struct reading *r = data;
	uint32_t number;
	char *copy;
	int ret;

	if (r->fields.ret)
		return "";
	ret = ARRAY_RESERVE(r->cleaned, r->cleaned_capacity, r->texts.n_keys + 1);
	ret = ret ?: intern__add(&r->texts, text, strlen(text), &number);
	if (ret == 0)
		return r->cleaned[number];
	r->text.length = 0;
	if (ret > 0 && !text__append_clean(&r->text, text, ' ')) {
		copy = new_array(r, r->text.length + 1, 1);
		if (copy && r->text.length)
			memcpy(copy, r->text.bytes, r->text.length);
		if (copy)
			return r->cleaned[number] = copy;
	}
	/* The number is taken, its text is not there: nothing looks it up any more. */
	no_memory(r);
	return "";
}

/* A member, cleaned. */
static const char *text(struct reading *r, const json_t *json, const char *key, const char *absent)
{
	const char *found = json_fields__text(&r->fields, json, key, NULL);

	return found ? clean(r, found) : absent;
}

/* Of a row of calls of one API. Of one that this version does not know its word tells what it does. */
static enum so_cuda_kind kind_of(const char *word, const char *api)
{
	unsigned known = cuda_names__api_of(api), kind = 0;

	if (known < SO_CUDA_API_COUNT)
		return cuda_names__kind(known);
	while (kind < SO_CUDA_KIND_COUNT && strcmp(cuda_names__does_word(kind), word))
		kind++;
	return kind;
}

static bool read_row(struct reading *r, enum so_cuda_row_kind kind, const json_t *json, void *row)
{
	if (!so_cuda_row__read(&r->fields, kind, json, row))
		return false;
	so_cuda_row__replace_texts(kind, row, clean, r);
	return !r->fields.ret;
}

/*
 * Rows of one list, in elements of `size` bytes. finish() fills what an element has beside its row; false: it is left
 * out.
 */
struct list {
	enum so_cuda_row_kind kind;
	size_t size;
	bool (*finish)(struct reading *r, const json_t *json, void *row);
};

static void *read_rows(struct reading *r, const json_t *array, const struct list *list, size_t *n)
{
	const char *name = so_cuda_rows__of(list->kind)->list;
	char *out = new_array(r, json_array_size(array), list->size);
	const json_t *json;
	size_t i, kept = 0;

	json_array_foreach (array, i, json) {
		char *row;

		if (!json_fields__row(&r->fields, json, name, i))
			break;
		row = out + kept * list->size;
		if (read_row(r, list->kind, json, row) && (!list->finish || list->finish(r, json, row)))
			kept++;
	}
	r->fields.list = NULL;
	*n = kept;
	return out;
}

static void *read_list(struct reading *r, const json_t *owner, const struct list *list, size_t *n)
{
	const char *name = so_cuda_rows__of(list->kind)->list;

	return read_rows(r, json_fields__list(&r->fields, owner, name, SO_CUDA_MAX_ROWS), list, n);
}

static const char **read_texts(struct reading *r, const json_t *array, const char *key, size_t *n)
{
	const char **out = new_array(r, json_array_size(array), sizeof(*out));
	const json_t *element;
	size_t i;

	*n = json_array_size(array);
	json_array_foreach (array, i, element) {
		const char *text = json_fields__element(&r->fields, element, key);

		if (out && text)
			out[i] = clean(r, text);
	}
	return out;
}

static bool finish_library(struct reading *r, const json_t *json, void *row)
{
	static const struct list probes = { SO_CUDA_ROW_PROBE, sizeof(struct so_cuda_probe_row), NULL };
	struct cuda_library *library = row;

	library->probes = read_rows(r, library->probes_json, &probes, &library->n_probes);
	return true;
}

static int compare_libraries(const void *a, const void *b)
{
	const struct cuda_library *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* The libraries are sorted by their numbers. */
static const struct cuda_library *find_library(const struct cuda_report *report, int64_t id)
{
	struct cuda_library key = { .id = id };

	if (!report->n_libraries)
		return NULL;
	return bsearch(&key, report->libraries, report->n_libraries, sizeof(key), compare_libraries);
}

static bool finish_call(struct reading *r, const json_t *json, void *row)
{
	struct cuda_call *call = row;
	struct cuda_bucket *buckets;

	call->kind = kind_of(call->kind_word, call->api);
	call->library = find_library(r->report, call->library_id);
	if (call->kernel && !*call->kernel)
		call->kernel = NULL;
	call->n_buckets = json_array_size(call->histogram_json);
	call->buckets = buckets = new_array(r, call->n_buckets, sizeof(*buckets));
	return so_cuda_buckets__read(&r->fields, call->histogram_json, buckets) && call->calls > 0;
}

static bool finish_error(struct reading *r, const json_t *json, void *row)
{
	struct cuda_error *error = row;

	error->library = find_library(r->report, error->library_id);
	return error->count > 0;
}

static bool finish_line(struct reading *r, const json_t *json, void *row)
{
	struct cuda_line *line = row;

	line->kind = kind_of(line->event_word, line->api);
	line->event = so_cuda_kind__does(line->kind);
	line->stack.frames = read_texts(r, line->stack_json, "stack", &line->stack.n_frames);
	return line->calls > 0;
}

static bool finish_allocation(struct reading *r, const json_t *json, void *row)
{
	struct cuda_allocation *allocation = row;

	allocation->line = allocation->line ?: "";
	allocation->stack.frames = read_texts(r, allocation->stack_json, "stack", &allocation->stack.n_frames);
	return allocation->allocations || allocation->frees;
}

static void read_watching(struct reading *r, const json_t *answer, struct cuda_watching *out)
{
	const json_t *probes = json_fields__object(&r->fields, answer, "probes");
	const char *unit;
	json_t *value;

	if (!read_row(r, SO_CUDA_ROW_PROBES, probes, out))
		return;
	out->rungs = new_array(r, json_object_size(out->rungs_json), sizeof(*out->rungs));
	if (!out->rungs)
		return;
	json_object_foreach (out->rungs_json, unit, value)
		out->rungs[out->n_rungs++] =
			(struct cuda_rung_word){ clean(r, unit), text(r, out->rungs_json, unit, "") };
	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++) {
		const char *word = cuda_names__kind_word(kind);

		out->stack_period[kind] = json_fields__count(&r->fields, out->stack_period_json, word);
		out->stack_time_ns[kind] = json_fields__count(&r->fields, out->stack_time_ns_json, word);
	}
}

static void read_losses(struct reading *r, const json_t *answer)
{
	const json_t *lost = json_fields__object(&r->fields, answer, "lost");
	const char *word;
	json_t *value;

	r->report->losses = new_array(r, json_object_size(lost), sizeof(*r->report->losses));
	if (!r->report->losses)
		return;
	json_object_foreach ((json_t *)lost, word, value) {
		uint64_t count = json_fields__count(&r->fields, lost, word);

		if (count)
			r->report->losses[r->report->n_losses++] = (struct cuda_loss){ clean(r, word), count };
	}
}

static void read_gpu(struct reading *r, const json_t *answer)
{
	static const struct list devices = { SO_CUDA_ROW_DEVICE, sizeof(struct so_cuda_device_row), NULL };
	const json_t *gpu = json_fields__object(&r->fields, answer, "gpu");

	r->report->gpu_problem = text(r, answer, "gpu_problem", "");
	if (!gpu)
		return;
	r->report->driver = text(r, gpu, "driver", "");
	r->report->devices = read_list(r, gpu, &devices, &r->report->n_devices);
}

static void read_lists(struct reading *r, const json_t *answer)
{
	static const struct list libraries = { SO_CUDA_ROW_LIBRARY, sizeof(struct cuda_library), finish_library },
				 calls = { SO_CUDA_ROW_CALL, sizeof(struct cuda_call), finish_call },
				 errors = { SO_CUDA_ROW_ERROR, sizeof(struct cuda_error), finish_error },
				 lines = { SO_CUDA_ROW_LINE, sizeof(struct cuda_line), finish_line },
				 allocations = { SO_CUDA_ROW_ALLOCATION, sizeof(struct cuda_allocation),
						 finish_allocation },
				 in_progress = { SO_CUDA_ROW_IN_PROGRESS, sizeof(struct so_cuda_in_progress_row),
						 NULL };

	r->report->libraries = read_list(r, answer, &libraries, &r->report->n_libraries);
	if (r->report->n_libraries)
		qsort(r->report->libraries, r->report->n_libraries, sizeof(*r->report->libraries), compare_libraries);
	r->report->calls = read_list(r, answer, &calls, &r->report->n_calls);
	r->report->errors = read_list(r, answer, &errors, &r->report->n_errors);
	r->report->lines = read_list(r, answer, &lines, &r->report->n_lines);
	r->report->allocations = read_list(r, answer, &allocations, &r->report->n_allocations);
	r->report->in_progress = read_list(r, answer, &in_progress, &r->report->n_in_progress);
}

static struct so_cuda_estimate sums_of(struct reading *r, const json_t *estimate)
{
	return (struct so_cuda_estimate){
#define X(member, word) .member = json_fields__number(&r->fields, estimate, word, HUGE_VAL, 0),
		SO_CUDA_ESTIMATE_SUMS(X)
#undef X
	};
}

static void read_estimates(struct reading *r, const json_t *answer)
{
	const json_t *estimate = json_fields__object(&r->fields, answer, "estimate");
	const json_t *by_api = json_fields__object(&r->fields, estimate, "by_api");
	const char *api;
	json_t *value;

	r->report->estimate = sums_of(r, estimate);
	r->report->apis_known = by_api != NULL;
	r->report->estimates = new_array(r, json_object_size(by_api), sizeof(*r->report->estimates));
	if (!r->report->estimates)
		return;
	json_object_foreach ((json_t *)by_api, api, value)
		r->report->estimates[r->report->n_estimates++] = (struct cuda_api_estimate){
			.api = clean(r, api),
			.kind = kind_of("", api),
			.sums = sums_of(r, json_fields__object(&r->fields, by_api, api)),
		};
}

static void read_all(struct reading *r, const json_t *answer)
{
	if (!json_fields__row(&r->fields, answer, NULL, 0))
		return;
	read_row(r, SO_CUDA_ROW_HEAD, answer, r->report);
	if (!json_fields__member(&r->fields, answer, "available"))
		r->report->available = true;
	read_estimates(r, answer);
	r->report->problems = read_texts(r, json_fields__list(&r->fields, answer, "problems", MAX_PROBLEMS), "problems",
					 &r->report->n_problems);
	read_watching(r, answer, &r->report->watching);
	read_losses(r, answer);
	read_gpu(r, answer);
	read_lists(r, answer);
}

int cuda_report__read(const json_t *answer, struct cuda_report **out, struct so_error *err)
{
	_cleanup_(cuda_report) struct cuda_report *report = calloc(1, sizeof(*report));
	__attribute__((cleanup(reading__clear))) struct reading r = {
		.fields = { .what = "the daemon's answer about CUDA calls", .err = err }, .report = report
	};

	if (report)
		report->arena = arena__new(CUDA_REPORT_LIMIT_BYTES);
	if (!report || !report->arena)
		return so_err(err, -ENOMEM, "out of memory");
	read_all(&r, answer);
	if (r.fields.ret)
		return r.fields.ret;
	*out = TAKE_PTR(report);
	return 0;
}

double cuda_report__interval(const struct cuda_report *report)
{
	if (report->estimated && !report->apis_known)
		return NAN;
	return so_cuda_interval(&report->estimate);
}

static const struct cuda_api_estimate *find_estimate(const struct cuda_report *report, const char *api)
{
	for (size_t i = 0; i < report->n_estimates; i++)
		if (!strcmp(report->estimates[i].api, api))
			return &report->estimates[i];
	return NULL;
}

double cuda_report__api_interval(const struct cuda_report *report, const char *api)
{
	const struct cuda_api_estimate *estimate = find_estimate(report, api);

	if (report->estimated && !report->apis_known)
		return NAN;
	return estimate ? so_cuda_interval(&estimate->sums) : 0;
}

bool cuda_report__is_api_estimate(const struct cuda_report *report, const char *api)
{
	return report->estimated && (!report->apis_known || find_estimate(report, api));
}

bool cuda_report__is_estimate(const struct cuda_report *report, enum so_cuda_kind kind)
{
	for (size_t i = 0; i < report->n_estimates; i++)
		if (report->estimates[i].kind == kind)
			return report->estimated;
	return report->estimated && !report->apis_known;
}

void cuda_report__free(struct cuda_report *report)
{
	if (!report)
		return;
	arena__free(report->arena);
	free(report);
}
