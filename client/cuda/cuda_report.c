// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_fields.h"
#include "stakeout/cuda_names.h"

#define MAX_PROBLEMS 1024

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

static const char *clean(void *data, const char *text)
{
	return cuda_fields__clean(data, text);
}

static bool read_row(struct cuda_fields *fields, enum so_cuda_row_kind kind, const json_t *json, void *row)
{
	if (!so_cuda_row__read(&fields->json, kind, json, row))
		return false;
	so_cuda_row__replace_texts(kind, row, clean, fields);
	return !fields->json.ret;
}

/*
 * Rows of one list, in elements of `size` bytes. finish() fills what an element has beside its row; false: it is left
 * out.
 */
struct list {
	enum so_cuda_row_kind kind;
	size_t size;
	bool (*finish)(struct cuda_fields *fields, const struct cuda_report *report, const json_t *json, void *row);
};

static void *read_rows(struct cuda_fields *fields, const struct cuda_report *report, const json_t *array,
		       const struct list *list, size_t *n)
{
	const char *name = so_cuda_rows__of(list->kind)->list;
	char *out = cuda_fields__array(fields, json_array_size(array), list->size);
	const json_t *json;
	size_t i, kept = 0;

	json_array_foreach (array, i, json) {
		char *row;

		if (!json_fields__row(&fields->json, json, name, i))
			break;
		row = out + kept * list->size;
		if (read_row(fields, list->kind, json, row) &&
		    (!list->finish || list->finish(fields, report, json, row)))
			kept++;
	}
	fields->json.list = NULL;
	*n = kept;
	return out;
}

static void *read_list(struct cuda_fields *fields, const struct cuda_report *report, const json_t *owner,
		       const struct list *list, size_t *n)
{
	const char *name = so_cuda_rows__of(list->kind)->list;

	return read_rows(fields, report, json_fields__list(&fields->json, owner, name, SO_CUDA_MAX_ROWS), list, n);
}

static const char **read_texts(struct cuda_fields *fields, const json_t *array, const char *key, size_t *n)
{
	const char **out = cuda_fields__array(fields, json_array_size(array), sizeof(*out));
	const json_t *element;
	size_t i;

	*n = json_array_size(array);
	json_array_foreach (array, i, element) {
		const char *text = json_fields__element(&fields->json, element, key);

		if (out && text)
			out[i] = cuda_fields__clean(fields, text);
	}
	return out;
}

static void read_stack(struct cuda_fields *fields, const json_t *frames, struct cuda_stack *out)
{
	out->frames = read_texts(fields, frames, "stack", &out->n_frames);
}

static bool finish_library(struct cuda_fields *fields, const struct cuda_report *report, const json_t *json, void *row)
{
	static const struct list probes = { SO_CUDA_ROW_PROBE, sizeof(struct so_cuda_probe_row), NULL };
	struct cuda_library *library = row;

	library->probes = read_rows(fields, report, library->probes_json, &probes, &library->n_probes);
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

static bool finish_call(struct cuda_fields *fields, const struct cuda_report *report, const json_t *json, void *row)
{
	struct cuda_call *call = row;
	struct cuda_bucket *buckets;

	call->kind = kind_of(call->kind_word, call->api);
	call->library = find_library(report, call->library_id);
	if (call->kernel && !*call->kernel)
		call->kernel = NULL;
	call->n_buckets = json_array_size(call->histogram_json);
	call->buckets = buckets = cuda_fields__array(fields, call->n_buckets, sizeof(*buckets));
	return so_cuda_buckets__read(&fields->json, call->histogram_json, buckets) && call->calls > 0;
}

static bool finish_error(struct cuda_fields *fields, const struct cuda_report *report, const json_t *json, void *row)
{
	struct cuda_error *error = row;

	error->library = find_library(report, error->library_id);
	return error->count > 0;
}

static bool finish_line(struct cuda_fields *fields, const struct cuda_report *report, const json_t *json, void *row)
{
	struct cuda_line *line = row;

	line->kind = kind_of(line->event_word, line->api);
	line->event = so_cuda_kind__does(line->kind);
	line->direction = cuda_fields__text(fields, json, "direction", "");
	read_stack(fields, line->stack_json, &line->stack);
	return line->calls > 0;
}

static bool finish_allocation(struct cuda_fields *fields, const struct cuda_report *report, const json_t *json,
			      void *row)
{
	struct cuda_allocation *allocation = row;

	allocation->line = allocation->line ?: "";
	read_stack(fields, allocation->stack_json, &allocation->stack);
	return allocation->allocations || allocation->frees;
}

static void read_watching(struct cuda_fields *fields, const json_t *answer, struct cuda_watching *out)
{
	const json_t *probes = json_fields__object(&fields->json, answer, "probes");
	const char *unit;
	json_t *value;

	if (!read_row(fields, SO_CUDA_ROW_PROBES, probes, out))
		return;
	out->rungs = cuda_fields__array(fields, json_object_size(out->rungs_json), sizeof(*out->rungs));
	if (!out->rungs)
		return;
	json_object_foreach (out->rungs_json, unit, value)
		out->rungs[out->n_rungs++] =
			(struct cuda_rung_word){ cuda_fields__clean(fields, unit),
						 cuda_fields__text(fields, out->rungs_json, unit, "") };
	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++) {
		const char *word = cuda_names__kind_word(kind);

		out->stack_period[kind] = json_fields__count(&fields->json, out->stack_period_json, word);
		out->stack_time_ns[kind] = json_fields__count(&fields->json, out->stack_time_ns_json, word);
	}
}

static void read_losses(struct cuda_fields *fields, const json_t *answer, struct cuda_report *report)
{
	const json_t *lost = json_fields__object(&fields->json, answer, "lost");
	const char *word;
	json_t *value;

	report->losses = cuda_fields__array(fields, json_object_size(lost), sizeof(*report->losses));
	if (!report->losses)
		return;
	json_object_foreach ((json_t *)lost, word, value) {
		uint64_t count = json_fields__count(&fields->json, lost, word);

		if (count)
			report->losses[report->n_losses++] =
				(struct cuda_loss){ cuda_fields__clean(fields, word), count };
	}
}

static void read_gpu(struct cuda_fields *fields, const json_t *answer, struct cuda_report *report)
{
	static const struct list devices = { SO_CUDA_ROW_DEVICE, sizeof(struct so_cuda_device_row), NULL };
	const json_t *gpu = json_fields__object(&fields->json, answer, "gpu");

	report->gpu_problem = cuda_fields__text(fields, answer, "gpu_problem", "");
	if (!gpu)
		return;
	report->driver = cuda_fields__text(fields, gpu, "driver", "");
	report->devices = read_list(fields, report, gpu, &devices, &report->n_devices);
}

static void read_lists(struct cuda_fields *fields, const json_t *answer, struct cuda_report *report)
{
	static const struct list libraries = { SO_CUDA_ROW_LIBRARY, sizeof(struct cuda_library), finish_library },
				 calls = { SO_CUDA_ROW_CALL, sizeof(struct cuda_call), finish_call },
				 errors = { SO_CUDA_ROW_ERROR, sizeof(struct cuda_error), finish_error },
				 lines = { SO_CUDA_ROW_LINE, sizeof(struct cuda_line), finish_line },
				 allocations = { SO_CUDA_ROW_ALLOCATION, sizeof(struct cuda_allocation),
						 finish_allocation },
				 in_progress = { SO_CUDA_ROW_IN_PROGRESS, sizeof(struct so_cuda_in_progress_row),
						 NULL };

	report->libraries = read_list(fields, report, answer, &libraries, &report->n_libraries);
	if (report->n_libraries)
		qsort(report->libraries, report->n_libraries, sizeof(*report->libraries), compare_libraries);
	report->calls = read_list(fields, report, answer, &calls, &report->n_calls);
	report->errors = read_list(fields, report, answer, &errors, &report->n_errors);
	report->lines = read_list(fields, report, answer, &lines, &report->n_lines);
	report->allocations = read_list(fields, report, answer, &allocations, &report->n_allocations);
	report->in_progress = read_list(fields, report, answer, &in_progress, &report->n_in_progress);
}

static struct so_cuda_estimate sums_of(struct cuda_fields *fields, const json_t *estimate)
{
	return (struct so_cuda_estimate){
#define X(member, word) .member = json_fields__number(&fields->json, estimate, word, HUGE_VAL, 0),
		SO_CUDA_ESTIMATE_SUMS(X)
#undef X
	};
}

static void read_estimates(struct cuda_fields *fields, const json_t *answer, struct cuda_report *report)
{
	const json_t *estimate = json_fields__object(&fields->json, answer, "estimate");
	const json_t *by_api = json_fields__object(&fields->json, estimate, "by_api");
	const char *api;
	json_t *value;

	report->estimate = sums_of(fields, estimate);
	report->apis_known = by_api != NULL;
	report->estimates = cuda_fields__array(fields, json_object_size(by_api), sizeof(*report->estimates));
	if (!report->estimates)
		return;
	json_object_foreach ((json_t *)by_api, api, value)
		report->estimates[report->n_estimates++] = (struct cuda_api_estimate){
			.api = cuda_fields__clean(fields, api),
			.kind = kind_of("", api),
			.sums = sums_of(fields, json_fields__object(&fields->json, by_api, api)),
		};
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

static void read_all(struct cuda_fields *fields, const json_t *answer, struct cuda_report *report)
{
	if (!json_fields__row(&fields->json, answer, NULL, 0))
		return;
	report->pid = json_fields__integer(&fields->json, answer, "pid");
	report->comm = cuda_fields__text(fields, answer, "comm", "");
	report->duration_s = json_fields__number(&fields->json, answer, "duration_s", 1e10, 0);
	report->cpu_s = json_fields__number(&fields->json, answer, "cpu_s", 1e15, 0);
	report->estimated = json_fields__flag(&fields->json, answer, "estimated", false);
	report->lines_missing = json_fields__count(&fields->json, answer, "lines_missing");
	read_estimates(fields, answer, report);
	report->available = json_fields__flag(&fields->json, answer, "available", true);
	report->problems = read_texts(fields, json_fields__list(&fields->json, answer, "problems", MAX_PROBLEMS),
				      "problems", &report->n_problems);
	read_watching(fields, answer, &report->watching);
	read_losses(fields, answer, report);
	read_gpu(fields, answer, report);
	read_lists(fields, answer, report);
}

int cuda_report__read(const json_t *answer, struct cuda_report **out, struct so_error *err)
{
	_cleanup_(cuda_report) struct cuda_report *report = calloc(1, sizeof(*report));
	_cleanup_(cuda_fields) struct cuda_fields *fields =
		&(struct cuda_fields){ .json = { .what = "the daemon's answer about CUDA calls", .err = err } };

	if (report)
		report->arena = arena__new(CUDA_REPORT_LIMIT_BYTES);
	if (!report || !report->arena)
		return so_err(err, -ENOMEM, "out of memory");
	fields->arena = report->arena;
	read_all(fields, answer, report);
	if (fields->json.ret)
		return fields->json.ret;
	*out = TAKE_PTR(report);
	return 0;
}

void cuda_report__free(struct cuda_report *report)
{
	if (!report)
		return;
	arena__free(report->arena);
	free(report);
}
