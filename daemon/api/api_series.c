// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_series.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/api/api_history.h"
#include "daemon/os/clock.h"

/* Windows that begin in it; those that begin before the range are in the first one. */
struct slice {
	int64_t begin_ns, end_ns, covered_ns; /* of its windows */
	uint64_t windows, samples, lost;
	struct category_sums sums;
	struct store_memory_sum memory;
};

struct series {
	struct category_counters *counters;
	struct history_range range;
	int64_t slice_ns;
	size_t n;
	uint64_t until_ns;       /* clock__now_ns() */
	bool wall, cuda, memory; /* a window has it */
	struct slice *slices;
};

static void series__clear(struct series *series)
{
	free(series->slices);
}

static int read_slices(const struct http_request *request, size_t *out, struct so_error *err)
{
	const char *text = http_request__argument(request, "slices");
	unsigned long value = API_SERIES_DEFAULT;
	char *end;

	if (text) {
		value = strtoul(text, &end, 10);
		if (text[0] < '0' || text[0] > '9' || *end || value < 1 || value > API_SERIES_MAX)
			return so_err(err, -EINVAL, "slices must be a whole number from 1 to %d", API_SERIES_MAX);
	}
	*out = value;
	return 0;
}

/* Slices of all that is kept would be of no use: both ends are to be given. */
static int read_range(const struct http_request *request, struct history_range *out, struct so_error *err)
{
	if (!http_request__argument(request, "from_ns") || !http_request__argument(request, "to_ns"))
		return so_err(err, -EINVAL, "a series needs from_ns and to_ns, in ns since 1970-01-01 UTC");
	return api_history__range(request, out, err);
}

static int take(void *data, const struct store_window_info *window, struct so_error *err)
{
	struct series *series = data;
	int64_t at = (window->begin_ns - series->range.from_ns) / series->slice_ns;
	struct slice *slice = &series->slices[at < 0 ? 0 : at < (int64_t)series->n ? (size_t)at : series->n - 1];
	int ret;

	if (clock__now_ns() > series->until_ns)
		return so_err(err, -EFBIG, "that is more than can be added up in %d s: ask for a shorter time",
			      (int)(API_SERIES_PATIENCE_NS / 1000000000));
	ret = category_counters__sum(series->counters, window->profile, window->profile_bytes, &slice->sums, err);
	if (ret)
		return ret == -ENOMEM ? ret : -EBADMSG;
	if (!slice->windows++)
		slice->begin_ns = window->begin_ns;
	if (window->end_ns > slice->end_ns)
		slice->end_ns = window->end_ns;
	slice->covered_ns += window->covered_ns;
	slice->samples += window->samples;
	slice->lost += window->lost;
	series->wall |= slice->sums.wall;
	series->cuda |= window->cuda;
	series->memory |= window->memory.known;
	store_memory_sum__add(&slice->memory, window->covered_ns, &window->memory);
	return 0;
}

/* New references, as all below; NULL: out of memory. */
static json_t *numbers(const int64_t *values, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < n; i++) {
		if (json_array_append_new(list, json_integer(values[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* As `memories` names them. */
static json_t *memory_json(const struct store_memory *m)
{
	const int64_t values[] = { m->anonymous, m->file, m->shared, m->swapped };

	return m->known ? numbers(values, sizeof(values) / sizeof(values[0])) : json_null();
}

static json_t *slice_json(const struct series *series, size_t at)
{
	const struct slice *slice = &series->slices[at];
	size_t n = category_counters__count(series->counters);
	struct store_memory memory = store_memory_sum__mean(&slice->memory);
	bool wall = slice->sums.wall;

	return json_pack(
		"{s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "slice", (json_int_t)at, "begin_ns",
		(json_int_t)slice->begin_ns, "end_ns", (json_int_t)slice->end_ns, "covered_s",
		(double)slice->covered_ns / 1e9, "windows", (json_int_t)slice->windows, "samples",
		(json_int_t)slice->samples, "lost", (json_int_t)slice->lost, "cpu_ns", numbers(slice->sums.cpu_ns, n),
		"wall_ns", wall ? numbers(slice->sums.wall_ns, n) : json_null(), "state_ns",
		wall ? numbers(slice->sums.state_ns, WALL_STATE_COUNT) : json_null(), "memory_bytes",
		memory_json(&memory), "memory_most_bytes", memory.known ? json_integer(memory.most) : json_null());
}

static json_t *slices_json(const struct series *series)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < series->n; i++) {
		if (series->slices[i].windows && json_array_append_new(list, slice_json(series, i))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *words(const struct series *series, bool states)
{
	size_t n = states ? WALL_STATE_COUNT : category_counters__count(series->counters);
	json_t *list = json_array();

	for (size_t i = 0; list && i < n; i++) {
		if (json_array_append_new(list, json_string(states ? wall_states[i]
								   : category_counters__name(series->counters, i)))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int64_t slice_length(int64_t range_ns, int64_t n)
{
	return range_ns / n + (range_ns % n != 0);
}

static int add_up(struct history *history, struct caller caller, int64_t key, struct series *series, json_t **out,
		  struct so_error *err)
{
	const struct store_query query = { key, series->range.from_ns, series->range.to_ns };
	struct store_span span = { 0 };
	int ret = history__windows(history, caller, &query, series->slice_ns, take, series, &span, err);

	if (ret)
		return ret;
	*out = json_pack("{s:I, s:I, s:I, s:b, s:b, s:b, s:I, s:o, s:o, s:[s, s, s, s], s:o}", "from_ns",
			 (json_int_t)series->range.from_ns, "to_ns", (json_int_t)series->range.to_ns, "slice_ns",
			 (json_int_t)series->slice_ns, "wall", series->wall, "cuda", series->cuda, "memory",
			 series->memory, "damaged", (json_int_t)span.damaged, "categories", words(series, false),
			 "states", words(series, true), "memories", "anonymous", "file", "shared", "swapped", "slices",
			 slices_json(series));
	return *out ? 0 : so_err(err, -ENOMEM, "out of memory");
}

int api_series__get(struct history *history, struct category_counters *counters, const struct http_request *request,
		    int64_t key, json_t **out, struct so_error *err)
{
	__attribute__((cleanup(series__clear))) struct series series = {
		.counters = counters, .until_ns = clock__now_ns() + API_SERIES_PATIENCE_NS
	};
	int ret = api_history__check(history, err);

	ret = ret ?: read_range(request, &series.range, err);
	ret = ret ?: read_slices(request, &series.n, err);
	if (!ret && !counters)
		ret = so_err(err, -ENODATA, "the daemon has no categories");
	if (ret)
		return ret;
	series.slice_ns = slice_length(series.range.to_ns - series.range.from_ns, (int64_t)series.n);
	series.slices = calloc(series.n, sizeof(*series.slices));
	if (!series.slices)
		return so_err(err, -ENOMEM, "out of memory");
	return add_up(history, request->caller, key, &series, out, err);
}
