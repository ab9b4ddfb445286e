// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/memory_trend.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "client/memory/growth_text.h"
#include "client/session/past_time.h"

#define MB  1e6
#define KIB 1024
/* The daemon's answer has no more windows. */
#define MOST_WINDOWS 100000
#define BARS         60
/* What bars span at least: of the highest, and in bytes. Less would make mountains of molehills. */
#define SPAN_SHARE 0.1
#define SPAN_BYTES 1e6

/* false: it is no time. */
static bool read_time(const json_t *row, const char *name, int64_t *out)
{
	const json_t *value = json_object_get(row, name);

	*out = json_integer_value(value);
	return json_is_integer(value) && *out > 0;
}

/* false: it is no number of bytes; null is not known. */
static bool read_bytes(const json_t *row, const char *name, bool *known, double *out)
{
	const json_t *value = json_object_get(row, name);

	*out = json_number_value(value);
	*known &= json_is_integer(value);
	return json_is_null(value) || (json_is_integer(value) && *out >= 0);
}

static bool read_window(const json_t *row, struct trend_window *w)
{
	w->known = true;
	return read_time(row, "begin_ns", &w->begin_ns) && read_time(row, "end_ns", &w->end_ns) &&
	       w->begin_ns < w->end_ns && read_bytes(row, "anonymous_bytes", &w->known, &w->anonymous) &&
	       read_bytes(row, "file_bytes", &w->known, &w->file) &&
	       read_bytes(row, "shared_bytes", &w->known, &w->shared) &&
	       read_bytes(row, "swapped_bytes", &w->known, &w->swapped) &&
	       read_bytes(row, "most_bytes", &w->known, &w->most);
}

static int read_windows(const json_t *rows, struct memory_trend *trend, struct so_error *err)
{
	const json_t *row;
	size_t i;

	if (!json_is_array(rows) || json_array_size(rows) > MOST_WINDOWS)
		return so_err(err, -EPROTO, "the daemon's answer about memory has no rows");
	trend->windows = calloc(json_array_size(rows) + 1, sizeof(*trend->windows));
	if (!trend->windows)
		return so_err(err, -ENOMEM, "out of memory");
	json_array_foreach ((json_t *)rows, i, row) {
		struct trend_window *w = &trend->windows[i];

		if (!read_window(row, w) || (i && w->begin_ns < w[-1].begin_ns))
			return so_err(err, -EPROTO, "the daemon's answer about memory has a row that is none");
		trend->n++;
		trend->known += w->known;
		if (w->known && (!trend->highest || w->most > trend->highest->most))
			trend->highest = w;
	}
	return 0;
}

/* A reading in the middle of each window, in the form of memory.series. */
static char *series_of(const struct memory_trend *trend)
{
	const char *before = "";
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	for (size_t i = 0; i < trend->n; i++) {
		const struct trend_window *w = &trend->windows[i];
		int64_t middle_ns = w->begin_ns + (w->end_ns - w->begin_ns) / 2;

		if (!w->known)
			continue;
		fprintf(out, "%s%" PRId64 ":%.0f:%.0f:%.0f:%.0f", before,
			(middle_ns - trend->windows[0].begin_ns) / 1000000, w->anonymous / KIB, w->file / KIB,
			w->shared / KIB, w->swapped / KIB);
		before = ",";
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

int memory_trend__read(const json_t *answer, long pid, struct memory_trend *out, struct so_error *err)
{
	_cleanup_free_ char *series = NULL;
	int ret = read_windows(json_object_get(answer, "rows"), out, err);

	if (ret)
		return ret;
	out->pid = pid;
	out->covered_s = json_number_value(json_object_get(answer, "covered_s"));
	if (!out->known)
		return so_err(err, -ENODATA,
			      "the history does not say how much memory process %ld had then: it is not known of what "
			      "an earlier version wrote, nor of very many processes",
			      pid);
	series = series_of(out);
	return series ? growth__read(series, &out->growth, err) : so_err(err, -ENOMEM, "out of memory");
}

void memory_trend__clear(struct memory_trend *trend)
{
	free(trend->windows);
	*trend = (struct memory_trend){ .n = 0 };
}

static double own(const struct trend_window *w)
{
	return w->anonymous + w->swapped;
}

/* The mean of what windows have of their own between two moments; negative: none is known. */
static double mean_between(const struct memory_trend *trend, double from_ns, double to_ns)
{
	double sum = 0, ns = 0;

	for (size_t i = 0; i < trend->n; i++) {
		const struct trend_window *w = &trend->windows[i];
		double overlap = fmin(to_ns, (double)w->end_ns) - fmax(from_ns, (double)w->begin_ns);

		if (!w->known || overlap <= 0)
			continue;
		sum += overlap * own(w);
		ns += overlap;
	}
	return ns > 0 ? sum / ns : -1;
}

static double end_of(const struct memory_trend *trend)
{
	double end_ns = 0;

	for (size_t i = 0; i < trend->n; i++)
		end_ns = fmax(end_ns, (double)trend->windows[i].end_ns);
	return end_ns;
}

/* One column for a part of the time; a blank one where nothing is known. */
static void print_bars(const struct memory_trend *trend, FILE *out)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	double from_ns = (double)trend->windows[0].begin_ns, end_ns = end_of(trend), least = INFINITY, most = 0, span;
	size_t n = trend->n < BARS ? trend->n : BARS;
	double means[BARS];

	for (size_t i = 0; i < n; i++) {
		double step_ns = (end_ns - from_ns) / (double)n, at_ns = from_ns + step_ns * (double)i;

		means[i] = mean_between(trend, at_ns, at_ns + step_ns);
		if (means[i] < 0)
			continue;
		least = fmin(least, means[i]);
		most = fmax(most, means[i]);
	}
	span = fmax(most - least, fmax(SPAN_SHARE * most, SPAN_BYTES));
	least = fmax(0, most - span);
	fputs("  ", out);
	for (size_t i = 0; i < n; i++)
		fputs(means[i] < 0 ? " " : blocks[(size_t)fmax(0, fmin(7, 8 * (means[i] - least) / span))], out);
	fprintf(out, "\n  (%s %.1f MB, %s %.1f MB of its own)\n", blocks[0], least / MB, blocks[7],
		(least + span) / MB);
}

static void print_verdict(const struct growth *g, FILE *out)
{
	if (g->own.verdict == GROWTH_UNKNOWN) {
		fprintf(out, "%s: %zu windows in %.0f s are too few: ask for a longer time\n",
			growth__word(g->own.verdict), g->points, g->seconds);
		return;
	}
	growth_text__print(&g->own, out);
	putc('\n', out);
	if (g->own.verdict == GROWTH_ONCE)
		fprintf(out, "by %+.1f MB, of which the second half had little\n", (g->own.last - g->own.first) / MB);
	growth_text__print_others(g, out);
}

void memory_trend__print(const struct memory_trend *trend, FILE *out)
{
	char begin[PAST_TIME_BYTES], end[PAST_TIME_BYTES];
	const struct trend_window *highest = trend->highest;
	const struct growth *g = &trend->growth;

	past_time(trend->windows[0].begin_ns, begin);
	past_time((int64_t)end_of(trend), end);
	fprintf(out, "process %ld, %s to %s:\n", trend->pid, begin, end);
	fprintf(out, "%.1f MB of its own, files %.1f MB (%+.1f a minute), shared %.1f MB (%+.1f)\n", g->own.last / MB,
		g->files.last / MB, growth_text__per_minute(g->files.rate), g->shared.last / MB,
		growth_text__per_minute(g->shared.rate));
	print_verdict(g, out);
	print_bars(trend, out);
	past_time(highest->begin_ns, begin);
	past_time(highest->end_ns, end);
	fprintf(out, "most: %.1f MB, with files, shared and swapped memory, between %s and %s\n", highest->most / MB,
		begin, end);
	if (trend->known < trend->n)
		fprintf(out, "of %zu of %zu windows the memory is not known\n", trend->n - trend->known, trend->n);
}

static json_t *bytes(const struct trend_window *w, double value)
{
	return w->known ? json_real(value) : json_null();
}

static json_t *window_json(const struct trend_window *w)
{
	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "begin_ns", (json_int_t)w->begin_ns, "end_ns",
			 (json_int_t)w->end_ns, "anonymous_bytes", bytes(w, w->anonymous), "file_bytes",
			 bytes(w, w->file), "shared_bytes", bytes(w, w->shared), "swapped_bytes", bytes(w, w->swapped),
			 "most_bytes", bytes(w, w->most));
}

json_t *memory_trend__json(const struct memory_trend *trend)
{
	const struct growth *g = &trend->growth;
	const struct growth_kind *own = &g->own;
	json_t *windows = json_array();

	for (size_t i = 0; windows && i < trend->n; i++)
		json_array_append_new(windows, window_json(&trend->windows[i]));
	return json_pack(
		"{s:I, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:f, s:I, s:I, s:o}",
		"pid", (json_int_t)trend->pid, "duration_s", g->seconds, "covered_s", trend->covered_s, "verdict",
		growth__word(own->verdict), "anonymous_bytes", own->last, "anonymous_growth_bytes",
		own->last - own->first, "growth_bytes_per_s", own->rate, "growth_bytes_per_s_low", own->low,
		"growth_bytes_per_s_high", own->high, "file_bytes", g->files.last, "file_bytes_per_s", g->files.rate,
		"shared_bytes", g->shared.last, "shared_bytes_per_s", g->shared.rate, "files",
		growth_text__json(&g->files), "shared", growth_text__json(&g->shared), "most_bytes",
		trend->highest->most, "most_begin_ns", (json_int_t)trend->highest->begin_ns, "most_end_ns",
		(json_int_t)trend->highest->end_ns, "windows", windows);
}
