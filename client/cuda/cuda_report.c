// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_fields.h"

#define MAX_TEXT_LINES 1024 /* problems */
#define MAX_API_BYTES  128
#define ANY            HUGE_VAL

static const char *const kind_words[SO_CUDA_KIND_COUNT + 1] = {
#define X(name, word, does, does_word) [SO_CUDA_##name] = word,
	SO_CUDA_KINDS(X)
#undef X
		[SO_CUDA_KIND_COUNT] = "other",
};

static const char *const does_words[SO_CUDA_KIND_COUNT + 1] = {
#define X(name, word, does, does_word) [SO_CUDA_##name] = does_word,
	SO_CUDA_KINDS(X)
#undef X
		[SO_CUDA_KIND_COUNT] = "other",
};

static const struct {
	const char *name;
	enum so_cuda_kind kind;
} apis[SO_CUDA_API_COUNT] = {
#define X(name, library, kind, args) { #name, SO_CUDA_##kind },
	SO_CUDA_APIS(X)
#undef X
};

const char *cuda_report__kind_word(enum so_cuda_kind kind)
{
	return kind_words[kind <= SO_CUDA_KIND_COUNT ? kind : SO_CUDA_KIND_COUNT];
}

const char *cuda_report__does_word(enum so_cuda_kind kind)
{
	return does_words[kind <= SO_CUDA_KIND_COUNT ? kind : SO_CUDA_KIND_COUNT];
}

/* Of a row of calls of one API. Of one that this version does not know its word tells what it does. */
static enum so_cuda_kind kind_of(const char *word, const char *api)
{
	unsigned kind = 0;

	for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++)
		if (!strcmp(apis[i].name, api))
			return apis[i].kind;
	while (kind < SO_CUDA_KIND_COUNT && strcmp(does_words[kind], word))
		kind++;
	return kind;
}

/*
 * One list of the answer: what row() reads of each element goes to an array of elements of `size` bytes. row() may drop
 * its element by returning false.
 */
struct list {
	const char *key;
	size_t size;
	bool (*row)(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out);
};

static void *read_list(struct cuda_fields *fields, const struct cuda_report *report, const json_t *owner,
		       const struct list *list, size_t *n)
{
	size_t kept = 0;
	const json_t *array = json_fields__list(&fields->json, owner, list->key, CUDA_REPORT_MAX_ROWS);
	char *out = cuda_fields__array(fields, json_array_size(array), list->size);
	const json_t *row;
	size_t i;

	json_array_foreach (array, i, row) {
		if (json_fields__row(&fields->json, row, list->key, i) &&
		    list->row(fields, report, row, out + kept * list->size))
			kept++;
	}
	json_fields__row(&fields->json, owner, NULL, 0);
	*n = kept;
	return out;
}

static const char **read_texts(struct cuda_fields *fields, const json_t *owner, const char *key, size_t most, size_t *n)
{
	const json_t *array = json_fields__list(&fields->json, owner, key, most), *element;
	const char **out = cuda_fields__array(fields, json_array_size(array), sizeof(*out));
	size_t i;

	*n = json_array_size(array);
	json_array_foreach (array, i, element) {
		const char *text = json_fields__element(&fields->json, element, key);

		if (out && text)
			out[i] = cuda_fields__clean(fields, text);
	}
	return out;
}

static void read_stack(struct cuda_fields *fields, const json_t *row, struct cuda_stack *out)
{
	out->frames = read_texts(fields, row, "stack", CUDA_REPORT_MAX_FRAMES, &out->n_frames);
}

static bool read_probe(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	struct cuda_probe *probe = out;

	*probe = (struct cuda_probe){
		.symbol = cuda_fields__text(fields, row, "symbol", ""),
		.api = cuda_fields__text(fields, row, "api", ""),
		.address = json_fields__address(&fields->json, row, "address"),
		.offset = json_fields__count(&fields->json, row, "offset_in_function"),
		.instruction = cuda_fields__text(fields, row, "instruction", ""),
		.why = cuda_fields__text(fields, row, "why", ""),
		.emulated = json_fields__flag(&fields->json, row, "emulated", false),
	};
	return true;
}

static bool read_library(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	static const struct list probes = { "probes", sizeof(struct cuda_probe), read_probe };
	struct cuda_library *library = out;

	*library = (struct cuda_library){
		.id = json_fields__integer(&fields->json, row, "id"),
		.pid = json_fields__integer(&fields->json, row, "pid"),
		.path = cuda_fields__text(fields, row, "path", ""),
		.kind = cuda_fields__text(fields, row, "kind", ""),
		.is_static = json_fields__flag(&fields->json, row, "static", false),
	};
	library->probes = read_list(fields, report, row, &probes, &library->n_probes);
	return true;
}

static int compare_libraries(const void *a, const void *b)
{
	const struct cuda_library *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* The libraries are sorted by their numbers. */
static const struct cuda_library *find_library(struct cuda_fields *fields, const struct cuda_report *report,
					       const json_t *row)
{
	struct cuda_library key = { .id = json_fields__integer(&fields->json, row, "library") };

	if (!report->n_libraries)
		return NULL;
	return bsearch(&key, report->libraries, report->n_libraries, sizeof(key), compare_libraries);
}

/* One [lower_ns, width_ns, count]; false: it is none of latency.h's. */
static bool read_bucket(const json_t *triple, struct cuda_bucket *out)
{
	json_int_t lower, width, count;
	uint32_t octave, bucket;

	for (size_t i = 0; i < 3; i++)
		if (!json_is_integer(json_array_get(triple, i)))
			return false;
	lower = json_integer_value(json_array_get(triple, 0));
	width = json_integer_value(json_array_get(triple, 1));
	count = json_integer_value(json_array_get(triple, 2));
	if (json_array_size(triple) != 3 || lower < 0 || width < 0 || count < 0)
		return false;
	octave = latency_octave((uint64_t)lower);
	bucket = latency_bucket((uint64_t)lower, octave);
	*out = (struct cuda_bucket){ octave * LATENCY_BUCKETS + bucket, (uint64_t)count };
	return latency_lower(octave, bucket) == (uint64_t)lower && latency_width(octave) == (uint64_t)width;
}

static void read_histogram(struct cuda_fields *fields, const json_t *row, struct cuda_call *call)
{
	const json_t *array = json_fields__list(&fields->json, row, "histogram", CUDA_BUCKETS);
	size_t n = json_array_size(array);
	struct cuda_bucket *buckets = cuda_fields__array(fields, n, sizeof(*buckets));

	for (size_t i = 0; buckets && i < n; i++) {
		if (read_bucket(json_array_get(array, i), &buckets[i]) &&
		    (!i || buckets[i].index > buckets[i - 1].index))
			continue;
		json_fields__refuse(&fields->json, -EPROTO, "histogram",
				    "rising [lower_ns, width_ns, count] of this version are expected");
		return;
	}
	call->buckets = buckets;
	call->n_buckets = n;
}

static void read_dim3(struct cuda_fields *fields, const json_t *row, const char *key, uint32_t out[3])
{
	const json_t *array = json_fields__list(&fields->json, row, key, 3);
	size_t n = json_array_size(array);

	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_array_get(array, i);

		if (json_is_integer(value) && n == 3 && json_integer_value(value) >= 0 &&
		    json_integer_value(value) <= UINT32_MAX)
			out[i] = (uint32_t)json_integer_value(value);
		else
			json_fields__refuse(&fields->json, -EPROTO, key, "three counts are expected");
	}
}

static void read_figures(struct cuda_fields *fields, const json_t *row, struct cuda_call *call)
{
	call->calls = json_fields__count(&fields->json, row, "calls");
	call->errors = json_fields__count(&fields->json, row, "errors");
	call->total_ns = json_fields__count(&fields->json, row, "total_ns");
	call->min_ns = json_fields__count(&fields->json, row, "min_ns");
	call->max_ns = json_fields__count(&fields->json, row, "max_ns");
	call->squares_ns2 = json_fields__number(&fields->json, row, "squares_ns2", ANY, 0);
	call->bytes = json_fields__count(&fields->json, row, "bytes");
	call->blocks = json_fields__count(&fields->json, row, "blocks");
	call->threads = json_fields__count(&fields->json, row, "threads");
	if (call->min_ns > call->max_ns)
		json_fields__refuse(&fields->json, -EPROTO, "min_ns", "above max_ns");
	if (call->errors > call->calls)
		json_fields__refuse(&fields->json, -EPROTO, "errors", "more than calls");
}

/* Names of C functions; other code may rely on their being short and ASCII. */
static const char *read_api(struct cuda_fields *fields, const json_t *row)
{
	const char *api = cuda_fields__text(fields, row, "api", "");
	size_t n = strlen(api);

	if (n <= MAX_API_BYTES && n == strspn(api, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
		return api;
	json_fields__refuse(&fields->json, -EPROTO, "api", "a function's name is expected");
	return "";
}

static bool read_call(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	struct cuda_call *call = out;

	*call = (struct cuda_call){
		.api = read_api(fields, row),
		.kind = kind_of(cuda_fields__text(fields, row, "kind", ""), read_api(fields, row)),
		.library = find_library(fields, report, row),
		.pid = json_fields__integer(&fields->json, row, "pid"),
		.tid = json_fields__integer(&fields->json, row, "tid"),
		.comm = cuda_fields__text(fields, row, "comm", ""),
		.kernel = cuda_fields__text(fields, row, "kernel", NULL),
		.direction = cuda_fields__text(fields, row, "direction", ""),
	};
	if (call->kernel && !*call->kernel)
		call->kernel = NULL;
	call->kernel_address = json_fields__address(&fields->json, row, "kernel_address");
	call->has_kernel_address = call->kernel_address != 0;
	read_figures(fields, row, call);
	read_dim3(fields, row, "grid", call->grid);
	read_dim3(fields, row, "block", call->block);
	read_histogram(fields, row, call);
	if (!*call->api)
		json_fields__refuse(&fields->json, -EPROTO, "api", "a function's name is expected");
	return call->calls > 0;
}

static bool read_error(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	struct cuda_error *error = out;
	uint64_t code = json_fields__count(&fields->json, row, "code");

	*error = (struct cuda_error){
		.api = read_api(fields, row),
		.library = find_library(fields, report, row),
		.pid = json_fields__integer(&fields->json, row, "pid"),
		.code = (uint32_t)code,
		.count = json_fields__count(&fields->json, row, "count"),
	};
	if (code > UINT32_MAX)
		json_fields__refuse(&fields->json, -EPROTO, "code", "a 32-bit code is expected");
	return error->count > 0;
}

static bool read_line(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	struct cuda_line *line = out;
	const char *api = read_api(fields, row);
	enum so_cuda_kind kind = kind_of(cuda_fields__text(fields, row, "event", ""), api);

	*line = (struct cuda_line){
		.kind = kind,
		.event = so_cuda_kind__does(kind),
		.api = api,
		.line = cuda_fields__text(fields, row, "line", ""),
		.pid = json_fields__integer(&fields->json, row, "pid"),
		.tid = json_fields__integer(&fields->json, row, "tid"),
		.direction = cuda_fields__text(fields, row, "direction", ""),
		.calls = json_fields__count(&fields->json, row, "calls"),
		.total_ns = json_fields__count(&fields->json, row, "total_ns"),
		.bytes = json_fields__count(&fields->json, row, "bytes"),
		.stacks = json_fields__count(&fields->json, row, "stacks"),
		.sampled = json_fields__flag(&fields->json, row, "sampled", false),
	};
	read_stack(fields, row, &line->stack);
	return line->calls > 0;
}

static bool read_allocation(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	struct cuda_allocation *allocation = out;

	*allocation = (struct cuda_allocation){
		.pid = json_fields__integer(&fields->json, row, "pid"),
		.line = cuda_fields__text(fields, row, "line", ""),
		.host = json_fields__flag(&fields->json, row, "host", false),
		.allocations = json_fields__count(&fields->json, row, "allocations"),
		.frees = json_fields__count(&fields->json, row, "frees"),
		.bytes = json_fields__count(&fields->json, row, "bytes"),
		.current_bytes = json_fields__integer(&fields->json, row, "current_bytes"),
		.peak_bytes = json_fields__integer(&fields->json, row, "peak_bytes"),
	};
	read_stack(fields, row, &allocation->stack);
	return allocation->allocations || allocation->frees;
}

static bool read_in_progress(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	*(struct cuda_in_progress *)out = (struct cuda_in_progress){
		.pid = json_fields__integer(&fields->json, row, "pid"),
		.tid = json_fields__integer(&fields->json, row, "tid"),
		.api = read_api(fields, row),
		.since_ns = json_fields__count(&fields->json, row, "since_ns"),
	};
	return true;
}

static bool read_device(struct cuda_fields *fields, const struct cuda_report *report, const json_t *row, void *out)
{
	*(struct cuda_device *)out = (struct cuda_device){
		.index = json_fields__integer(&fields->json, row, "index"),
		.name = cuda_fields__text(fields, row, "name", ""),
		.uuid = cuda_fields__text(fields, row, "uuid", ""),
		.utilisation_percent = json_fields__number(&fields->json, row, "utilisation_percent", 100, NAN),
		.memory_utilisation_percent =
			json_fields__number(&fields->json, row, "memory_utilisation_percent", 100, NAN),
		.memory_used_bytes = json_fields__number(&fields->json, row, "memory_used_bytes", ANY, NAN),
		.memory_total_bytes = json_fields__number(&fields->json, row, "memory_total_bytes", ANY, NAN),
		.process_utilisation_percent =
			json_fields__number(&fields->json, row, "process_utilisation_percent", 100, NAN),
		.process_memory_bytes = json_fields__number(&fields->json, row, "process_memory_bytes", ANY, NAN),
		.samples = json_fields__count(&fields->json, row, "samples"),
	};
	return true;
}

static void read_rungs(struct cuda_fields *fields, const json_t *probes, struct cuda_watching *out)
{
	const json_t *rungs = json_fields__object(&fields->json, probes, "rungs");
	const char *unit;
	json_t *value;

	out->rungs = cuda_fields__array(fields, json_object_size(rungs), sizeof(*out->rungs));
	if (!out->rungs)
		return;
	json_object_foreach ((json_t *)rungs, unit, value)
		out->rungs[out->n_rungs++] = (struct cuda_rung_word){ cuda_fields__clean(fields, unit),
								      cuda_fields__text(fields, rungs, unit, "") };
}

static void read_watching(struct cuda_fields *fields, const json_t *answer, struct cuda_watching *out)
{
	const json_t *probes = json_fields__object(&fields->json, answer, "probes");
	const json_t *periods = json_fields__object(&fields->json, probes, "stack_period");
	const json_t *times = json_fields__object(&fields->json, probes, "stack_time_ns");

	*out = (struct cuda_watching){
		.installed = json_fields__count(&fields->json, probes, "installed"),
		.floor_ns = json_fields__count(&fields->json, probes, "floor_ns"),
		.hits = json_fields__count(&fields->json, probes, "hits"),
		.returns = json_fields__count(&fields->json, probes, "returns"),
		.nested = json_fields__count(&fields->json, probes, "nested"),
		.stacks = json_fields__count(&fields->json, probes, "stacks"),
		.kind = cuda_fields__text(fields, probes, "kind", ""),
		.state = cuda_fields__text(fields, probes, "state", ""),
		.cost_ns_per_call = json_fields__number(&fields->json, probes, "cost_ns_per_call", ANY, NAN),
		.overhead_percent = json_fields__number(&fields->json, probes, "overhead_percent", ANY, NAN),
		.budget_percent = json_fields__number(&fields->json, probes, "budget_percent", ANY, NAN),
	};
	read_rungs(fields, probes, out);
	for (unsigned kind = 0; kind < SO_CUDA_KIND_COUNT; kind++) {
		out->stack_period[kind] = json_fields__count(&fields->json, periods, kind_words[kind]);
		out->stack_time_ns[kind] = json_fields__count(&fields->json, times, kind_words[kind]);
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
	static const struct list devices = { "devices", sizeof(struct cuda_device), read_device };
	const json_t *gpu = json_fields__object(&fields->json, answer, "gpu");

	report->gpu_problem = cuda_fields__text(fields, answer, "gpu_problem", "");
	if (!gpu)
		return;
	report->driver = cuda_fields__text(fields, gpu, "driver", "");
	report->devices = read_list(fields, report, gpu, &devices, &report->n_devices);
}

static void read_lists(struct cuda_fields *fields, const json_t *answer, struct cuda_report *report)
{
	static const struct list libraries = { "libraries", sizeof(struct cuda_library), read_library };
	static const struct list calls = { "calls", sizeof(struct cuda_call), read_call };
	static const struct list errors = { "errors", sizeof(struct cuda_error), read_error };
	static const struct list lines = { "lines", sizeof(struct cuda_line), read_line };
	static const struct list allocations = { "allocations", sizeof(struct cuda_allocation), read_allocation };
	static const struct list in_progress = { "in_progress", sizeof(struct cuda_in_progress), read_in_progress };

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
#define X(member, word) .member = json_fields__number(&fields->json, estimate, word, ANY, 0),
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
	report->problems = read_texts(fields, answer, "problems", MAX_TEXT_LINES, &report->n_problems);
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
