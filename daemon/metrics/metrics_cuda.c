// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The CUDA part of the metrics. The engine has a row for each thread, API, library, kernel and direction, and 32
 * buckets to an octave; here rows are added up by API, and buckets up to bounds that are powers of two of nanoseconds.
 * Octaves end there too, so no bucket is split. A call of exactly a bound's time counts above it.
 */
#include <errno.h>
#include <string.h>

#include "daemon/metrics/metrics.h"
#include "daemon/metrics/metrics_text.h"
#include "stakeout/cuda_names.h"

#define FINITE_BUCKETS (METRICS_BUCKETS - 1)

/* Bounds are 2^n ns: each octave where launches and queued copies are, 1 to 131 us; then every second up to 1.07 s. */
static const uint8_t bound_log2[FINITE_BUCKETS] = { 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24, 26, 28, 30 };

/* One series. Places 0 … SO_CUDA_API_COUNT - 1 are APIs, the one after these is "other". */
#define OTHER SO_CUDA_API_COUNT

struct api_sum {
	double buckets[METRICS_BUCKETS]; /* not cumulated; the last one has no bound */
	double seconds, errors;
	bool seen;
};

struct target_sums {
	struct api_sum apis[SO_CUDA_API_COUNT + 1];
	unsigned under_other; /* APIs that were added up */
};

static unsigned api_number(const json_t *row)
{
	const char *name = json_string_value(json_object_get(row, "api"));

	return name ? cuda_names__api_of(name) : OTHER;
}

static unsigned bucket_number(double end_ns)
{
	unsigned i = 0;

	while (i < FINITE_BUCKETS && end_ns > (double)(1ull << bound_log2[i]))
		i++;
	return i;
}

static void add_row(struct target_sums *sums, const json_t *row)
{
	const json_t *histogram = json_object_get(row, "histogram"), *bucket;
	struct api_sum *sum = &sums->apis[api_number(row)];
	size_t i;

	sum->seen = true;
	sum->seconds += json_number_value(json_object_get(row, "total_ns")) / 1e9;
	sum->errors += json_number_value(json_object_get(row, "errors"));
	json_array_foreach (histogram, i, bucket) {
		double end_ns =
			json_number_value(json_array_get(bucket, 0)) + json_number_value(json_array_get(bucket, 1));

		sum->buckets[bucket_number(end_ns)] += json_number_value(json_array_get(bucket, 2));
	}
}

static void move_to_other(struct target_sums *sums, struct api_sum *from)
{
	struct api_sum *other = &sums->apis[OTHER];

	for (unsigned i = 0; i < METRICS_BUCKETS; i++)
		other->buckets[i] += from->buckets[i];
	other->seconds += from->seconds;
	other->errors += from->errors;
	other->seen = true;
	from->seen = false;
	sums->under_other++;
}

/*
 * Keeps the first METRICS_MAX_APIS in the order of enum so_cuda_api. An order by time would let a series come and go;
 * by this one, since an API that was called stays called, one that went under "other" never comes back and "other"
 * never falls.
 */
static void fill(struct target_sums *sums, const json_t *cuda)
{
	const json_t *row;
	unsigned kept = 0;
	size_t i;

	json_array_foreach (json_object_get(cuda, "calls"), i, row)
		add_row(sums, row);
	for (unsigned api = 0; api < SO_CUDA_API_COUNT; api++)
		if (sums->apis[api].seen && ++kept > METRICS_MAX_APIS)
			move_to_other(sums, &sums->apis[api]);
}

struct printer {
	FILE *out;
	const struct metrics_target *targets;
	const struct target_sums *sums; /* of each target */
	size_t n;
};

#define TARGET_LABELS(t)                        \
	{ "id", (t)->id }, { "pid", (t)->pid }, \
	{                                       \
		"comm", (t)->comm               \
	}

static void print_histogram(FILE *out, const struct metrics_target *t, unsigned api, const struct api_sum *sum)
{
	struct metrics_label labels[] = { TARGET_LABELS(t),
					  { "api", api < OTHER ? cuda_names__api(api) : "other" },
					  { "le", NULL } };
	char bound[32];
	double below = 0;

	for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
		if (i < FINITE_BUCKETS)
			snprintf(bound, sizeof(bound), "%.12g", (double)(1ull << bound_log2[i]) / 1e9);
		else
			strcpy(bound, "+Inf");
		labels[4].value = bound;
		below += sum->buckets[i];
		metrics_text__sample(out, "stakeout_cuda_call_duration_seconds_bucket", labels, 5, below);
	}
	metrics_text__sample(out, "stakeout_cuda_call_duration_seconds_sum", labels, 4, sum->seconds);
	metrics_text__sample(out, "stakeout_cuda_call_duration_seconds_count", labels, 4, below);
}

static void print_calls(const struct printer *p)
{
	metrics_text__family(p->out, "stakeout_cuda_call_duration_seconds", "histogram",
			     "Time of CUDA calls on the host, from entry to return; never that of kernels on the GPU.");
	for (size_t i = 0; i < p->n; i++)
		for (unsigned api = 0; p->targets[i].cuda && api <= OTHER; api++)
			if (p->sums[i].apis[api].seen)
				print_histogram(p->out, &p->targets[i], api, &p->sums[i].apis[api]);
	metrics_text__family(p->out, "stakeout_cuda_call_errors_total", "counter",
			     "CUDA calls that did not return success; \"not ready\" of queries is among them.");
	for (size_t i = 0; i < p->n; i++)
		for (unsigned api = 0; p->targets[i].cuda && api <= OTHER; api++) {
			const struct metrics_label labels[] = {
				TARGET_LABELS(&p->targets[i]), { "api", api < OTHER ? cuda_names__api(api) : "other" }
			};

			if (p->sums[i].apis[api].seen)
				metrics_text__sample(p->out, "stakeout_cuda_call_errors_total", labels, 4,
						     p->sums[i].apis[api].errors);
		}
}

static void print_bounds(const struct printer *p)
{
	metrics_text__family(p->out, "stakeout_cuda_apis_under_other", "gauge",
			     "APIs that are added up as api=other because the target calls more than 40.");
	for (size_t i = 0; i < p->n; i++) {
		const struct metrics_label labels[] = { TARGET_LABELS(&p->targets[i]) };

		if (p->targets[i].cuda)
			metrics_text__sample(p->out, "stakeout_cuda_apis_under_other", labels, 3,
					     p->sums[i].under_other);
	}
	metrics_text__family(p->out, "stakeout_cuda_estimated", "gauge",
			     "1 where some calls were counted in windows alone and scaled to all of the time.");
	for (size_t i = 0; i < p->n; i++) {
		const struct metrics_label labels[] = { TARGET_LABELS(&p->targets[i]) };

		if (p->targets[i].cuda)
			metrics_text__sample(p->out, "stakeout_cuda_estimated", labels, 3,
					     json_is_true(json_object_get(p->targets[i].cuda, "estimated")));
	}
}

static void print_lost(const struct printer *p)
{
	metrics_text__family(p->out, "stakeout_cuda_lost_total", "counter",
			     "CUDA calls, or something of them, that are not in these figures, by cause.");
	for (size_t i = 0; i < p->n; i++) {
		json_t *lost = json_object_get(p->targets[i].cuda, "lost"), *value;
		const char *cause;

		json_object_foreach (lost, cause, value) {
			const struct metrics_label labels[] = { TARGET_LABELS(&p->targets[i]), { "cause", cause } };

			metrics_text__sample(p->out, "stakeout_cuda_lost_total", labels, 4, json_number_value(value));
		}
	}
}

static const struct gpu_figure {
	const char *name, *help, *field;
	double unit;
} gpu_figures[] = {
	{ "stakeout_gpu_utilisation_ratio",
	  "Share of time in which any program's kernel ran on the GPU: mean since the target was attached, of "
	  "an hour at most.",
	  "utilisation_percent", 1e-2 },
	{ "stakeout_gpu_memory_used_bytes", "Memory of the GPU in use, by all programs.", "memory_used_bytes", 1 },
	{ "stakeout_gpu_memory_size_bytes", "Memory of the GPU.", "memory_total_bytes", 1 },
	{ "stakeout_gpu_process_utilisation_ratio",
	  "The target's own use of the GPU by the driver's figures: mean since it was attached, of an hour at "
	  "most.",
	  "process_utilisation_percent", 1e-2 },
	{ "stakeout_gpu_process_memory_bytes", "Memory of the GPU that the target's processes use.",
	  "process_memory_bytes", 1 },
};

static void print_gpu(FILE *out, const struct gpu_figure *figure, const struct metrics_target *t)
{
	const json_t *devices = json_object_get(json_object_get(t->cuda, "gpu"), "devices"), *device;
	size_t i;

	json_array_foreach (devices, i, device) {
		const json_t *value = json_object_get(device, figure->field);
		const char *uuid = json_string_value(json_object_get(device, "uuid"));
		char gpu[24];
		const struct metrics_label labels[] = { TARGET_LABELS(t),
							{ "gpu", gpu },
							{ "uuid", uuid ? uuid : "" } };

		if (!json_is_number(value))
			continue;
		snprintf(gpu, sizeof(gpu), "%lld", (long long)json_integer_value(json_object_get(device, "index")));
		metrics_text__sample(out, figure->name, labels, 5, json_number_value(value) * figure->unit);
	}
}

static void print_gpus(const struct printer *p)
{
	for (size_t f = 0; f < sizeof(gpu_figures) / sizeof(gpu_figures[0]); f++) {
		metrics_text__family(p->out, gpu_figures[f].name, "gauge", gpu_figures[f].help);
		for (size_t i = 0; i < p->n; i++)
			if (p->targets[i].cuda)
				print_gpu(p->out, &gpu_figures[f], &p->targets[i]);
	}
}

int metrics_cuda__print(const struct metrics_target *targets, size_t n, FILE *out)
{
	_cleanup_free_ struct target_sums *sums = calloc(n + 1, sizeof(*sums));
	const struct printer printer = { out, targets, sums, n };

	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (targets[i].cuda)
			fill(&sums[i], targets[i].cuda);
	print_calls(&printer);
	print_bounds(&printer);
	print_lost(&printer);
	print_gpus(&printer);
	return 0;
}
