// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/gpu_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/session/json_value.h"
#include "stakeout/array.h"

/* Parts of the time, of which the least that was allocated is looked at. */
#define PARTS 20
/* A line is named if it keeps this part of the growth. */
#define CULPRIT_SHARE 0.05

/* A comment's number; `without` where there is none. */
static double number(const struct profile *profile, const char *key, double without)
{
	const char *text = profile__comment(profile, key);
	char *end;
	double value = text ? strtod(text, &end) : 0;

	return text && end != text && !*end && isfinite(value) && value >= 0 ? value : without;
}

struct reading {
	unsigned long long ms, low, reserved;
};

static int read_series(const char *series, struct reading **out, size_t *n)
{
	_cleanup_free_ struct reading *readings = NULL;
	size_t capacity = 0;

	*n = 0;
	while (*series) {
		struct reading r;
		int length = 0;

		if (sscanf(series, "%20llu:%20llu:%20llu:%*20u:%*20u%n", &r.ms, &r.low, &r.reserved, &length) != 3 ||
		    !length)
			return -EINVAL;
		if (ARRAY_RESERVE(readings, capacity, *n + 1))
			return -ENOMEM;
		readings[(*n)++] = r;
		series += length;
		if (*series == ',')
			series++;
		else if (*series)
			return -EINVAL;
	}
	*out = TAKE_PTR(readings);
	return 0;
}

int gpu_report__lows(const char *series, char **out)
{
	_cleanup_free_ struct reading *readings = NULL;
	size_t n, parts, length;
	int ret = read_series(series, &readings, &n);
	char *text = NULL;
	FILE *f;

	if (ret)
		return ret;
	f = open_memstream(&text, &length);
	if (!f)
		return -ENOMEM;
	parts = n < PARTS ? n : PARTS;
	for (size_t part = 0; part < parts; part++) {
		size_t from = n * part / parts, to = n * (part + 1) / parts;
		struct reading least = readings[from];

		for (size_t i = from + 1; i < to; i++)
			if (readings[i].low < least.low)
				least = readings[i];
		fprintf(f, "%s%llu:%llu:%llu:0:0", part ? "," : "", least.ms, least.low, least.reserved);
	}
	if (fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*out = text;
	return 0;
}

static double bytes_of(const json_t *json, const char *key)
{
	double value = json_number_value(json_object_get(json, key));

	return value > 0 ? value : 0;
}

static struct gpu_device device_of(const json_t *json)
{
	struct gpu_device d = {
		.pid = (long)bytes_of(json, "pid"),
		.gone = json_is_true(json_object_get(json, "gone")),
		.allocated = bytes_of(json, "allocated_bytes"),
		.reserved = bytes_of(json, "reserved_bytes"),
		.peak_allocated = bytes_of(json, "peak_allocated_bytes"),
		.peak_reserved = bytes_of(json, "peak_reserved_bytes"),
		.seen = bytes_of(json, "seen_bytes"),
		.without_stack = bytes_of(json, "without_stack_bytes"),
		.allocations = bytes_of(json, "allocations"),
		.frees = bytes_of(json, "frees"),
		.left_out = bytes_of(json, "left_out"),
		.replaced = bytes_of(json, "replaced"),
		.refused = bytes_of(json, "refused"),
		.refused_bytes = bytes_of(json, "refused_bytes"),
		.refused_allocated = bytes_of(json, "refused_allocated_bytes"),
		.refused_reserved = bytes_of(json, "refused_reserved_bytes"),
	};

	json_value__text(json, "device", d.name, sizeof(d.name));
	return d;
}

static int read_devices(const struct profile *profile, struct gpu_report *out)
{
	json_auto_t *json = json_loads(profile__comment(profile, "gpu.devices"), 0, NULL);
	const json_t *device;
	size_t i;

	if (!json_is_array(json))
		return -EINVAL;
	out->devices = calloc(json_array_size(json) + 1, sizeof(*out->devices));
	if (!out->devices)
		return -ENOMEM;
	json_array_foreach (json, i, device)
		out->devices[out->n_devices++] = device_of(device);
	return 0;
}

static int read_growth(const struct profile *profile, struct growth *out, struct so_error *err)
{
	_cleanup_free_ char *lows = NULL;
	int ret = gpu_report__lows(profile__comment(profile, "gpu.series"), &lows);

	return ret ? so_err(err, ret, "the profile is damaged: its series of allocated memory is none")
		   : growth__read(lows, out, err);
}

static int open_profile(const uint8_t *bytes, size_t length, struct profile **out, struct so_error *err)
{
	int ret = profile__read_value(bytes, length, "inuse_space", out, err);

	if (ret)
		return ret;
	if (!profile__comment(*out, "gpu.devices") || !profile__comment(*out, "gpu.series"))
		return so_err(err, -EINVAL, "the profile is none of 'stakeout memory --gpu': it names no devices");
	return 0;
}

int gpu_report__check(const uint8_t *bytes, size_t length, struct so_error *err)
{
	_cleanup_(profile) struct profile *profile = NULL;
	int ret = open_profile(bytes, length, &profile, err);
	const char *problem;

	if (ret || number(profile, "gpu.linked", 0) > 0)
		return ret;
	problem = profile__comment(profile, "gpu.problem");
	return so_err(err, -ENOTSUP, "process %.0f: %s", number(profile, "pid", 0),
		      problem ?: "PyTorch is not loaded (no libc10.so is mapped)");
}

/* The sum over what is in use of a value by another. */
static int lines_of(const uint8_t *bytes, size_t length, const char *in_use, const char *allocated, double each,
		    struct memory_lines **out, struct so_error *err)
{
	_cleanup_(profile) struct profile *first = NULL, *second = NULL;
	int ret = profile__read_value(bytes, length, in_use, &first, err);

	ret = ret ?: profile__read_value(bytes, length, allocated, &second, err);
	if (ret)
		return ret;
	ret = memory_lines__new(first, second, each, out);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

/* Blocks come one by one: how many a line keeps is what its rate's interval is of. */
static int block_bytes(const uint8_t *bytes, size_t length, const struct profile *in_use, double *out,
		       struct so_error *err)
{
	_cleanup_(profile) struct profile *objects = NULL;
	int ret = profile__read_value(bytes, length, "inuse_objects", &objects, err);
	double sum = 0, n = 0;

	if (ret)
		return ret;
	for (size_t i = 0; i < in_use->n_samples; i++)
		sum += (double)in_use->samples[i].count;
	for (size_t i = 0; i < objects->n_samples; i++)
		n += (double)objects->samples[i].count;
	*out = n > 0 && sum > 0 ? sum / n : 1;
	return 0;
}

static const struct memory_line *find_line(const struct memory_lines *lines, const char *text)
{
	for (size_t i = 0; i < lines->n; i++)
		if (!strcmp(lines->lines[i].text, text))
			return &lines->lines[i];
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct gpu_line *x = a, *y = b;

	if (x->line.in_use != y->line.in_use)
		return x->line.in_use < y->line.in_use ? 1 : -1;
	if (x->peak != y->peak)
		return x->peak < y->peak ? 1 : -1;
	return strcmp(x->line.text, y->line.text);
}

/* A line that was given nothing, but refused something, is among the refused alone. */
static int join(struct gpu_report *r)
{
	r->by_use = calloc(r->lines->n + r->refused->n + 1, sizeof(*r->by_use));
	if (!r->by_use)
		return -ENOMEM;
	for (size_t i = 0; i < r->lines->n; i++) {
		const struct memory_line *line = &r->lines->lines[i];
		const struct memory_line *peak = find_line(r->peaks, line->text);
		const struct memory_line *refused = find_line(r->refused, line->text);
		const struct memory_line *then = find_line(r->then, line->text);

		r->by_use[r->n_by_use++] = (struct gpu_line){ .line = *line,
							      .peak = peak ? peak->in_use : 0,
							      .allocations = peak ? peak->allocated : 0,
							      .refused = refused ? refused->in_use : 0,
							      .then = then ? then->in_use : 0 };
	}
	for (size_t i = 0; i < r->refused->n; i++) {
		const struct memory_line *line = &r->refused->lines[i];

		if (!find_line(r->lines, line->text))
			r->by_use[r->n_by_use++] =
				(struct gpu_line){ .line.text = line->text, .refused = line->in_use };
	}
	qsort(r->by_use, r->n_by_use, sizeof(*r->by_use), compare);
	return 0;
}

static int read_lines(const uint8_t *bytes, size_t length, struct gpu_report *out, struct so_error *err)
{
	double each;
	int ret = block_bytes(bytes, length, out->in_use, &each, err);

	ret = ret ?: lines_of(bytes, length, "inuse_space", "alloc_space", each, &out->lines, err);
	ret = ret ?: lines_of(bytes, length, "peak_space", "alloc_objects", 1, &out->peaks, err);
	ret = ret ?: lines_of(bytes, length, "refused_space", "refused_space", 1, &out->refused, err);
	ret = ret ?: lines_of(bytes, length, "refused_inuse_space", "refused_inuse_space", 1, &out->then, err);
	if (!ret && join(out))
		ret = so_err(err, -ENOMEM, "out of memory");
	return ret;
}

int gpu_report__read(const uint8_t *bytes, size_t length, struct gpu_report *out, struct so_error *err)
{
	int ret = gpu_report__check(bytes, length, err) ?: open_profile(bytes, length, &out->in_use, err);
	double time_ns;

	if (ret)
		return ret;
	if (read_devices(out->in_use, out))
		return so_err(err, -EINVAL, "the profile is damaged: its list of devices is none");
	ret = read_growth(out->in_use, &out->growth, err);
	time_ns = number(out->in_use, "gpu.time_ns", 0);
	out->cost_percent = time_ns > 0 ? 100 * number(out->in_use, "gpu.cost_ns", 0) / time_ns : -1;
	out->stacks = number(out->in_use, "gpu.stacks", 0);
	out->skipped = number(out->in_use, "gpu.skipped", 0);
	out->lost = number(out->in_use, "gpu.lost", 0);
	out->hidden = number(out->in_use, "gpu.hidden", 0);
	out->hidden_processes = number(out->in_use, "gpu.hidden_processes", 0);
	out->strange = number(out->in_use, "gpu.strange", 0);
	out->full = number(out->in_use, "gpu.full", 0);
	out->linked = number(out->in_use, "gpu.linked", 0) > 0;
	out->ended = number(out->in_use, "gpu.ended", 0) > 0;
	out->pid = (long)number(out->in_use, "pid", 0);
	return ret ?: read_lines(bytes, length, out, err);
}

void gpu_report__clear(struct gpu_report *report)
{
	profile__free(report->in_use);
	memory_lines__free(report->lines);
	memory_lines__free(report->peaks);
	memory_lines__free(report->refused);
	memory_lines__free(report->then);
	free(report->by_use);
	free(report->devices);
}

/* What is in the place of stacks that there are none of (daemon/memory/torch_profile.h) is no line. */
static bool is_no_line(const struct memory_line *line)
{
	return !strcmp(line->text, "[no-stack-taken]") || !strcmp(line->text, "[stack-lost]");
}

const struct memory_line *gpu_report__culprit(const struct gpu_report *report)
{
	const struct memory_lines *lines = report->lines;

	if (report->growth.own.verdict != GROWTH_STEADY)
		return NULL;
	for (size_t i = 0; i < lines->n; i++)
		if (!is_no_line(&lines->lines[i]) && memory_line__keeps(&lines->lines[i]) &&
		    lines->lines[i].rate > CULPRIT_SHARE * report->growth.own.rate)
			return &lines->lines[i];
	return NULL;
}
