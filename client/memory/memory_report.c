// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/memory_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/growth_text.h"
#include "client/summary/summary_parts.h"

#define MB         1e6
#define PER_MINUTE (60 / MB)
/* The daemon's most is 64 GiB. */
#define MOST_PAGE_BYTES 1e15
/* A line is named if it keeps this part of the growth. */
#define CULPRIT_SHARE 0.05
/* Of the growth so much must be known by lines, or it is said. */
#define KNOWN_SHARE 0.8

/* A comment's number; `without` where there is none. */
static double number(const struct profile *profile, const char *key, double without)
{
	const char *text = profile__comment(profile, key);
	char *end;
	double value = text ? strtod(text, &end) : 0;

	return text && end != text && !*end && isfinite(value) && value >= 0 ? value : without;
}

int memory_report__read(const uint8_t *bytes, size_t length, struct memory_report *out, struct so_error *err)
{
	int ret = profile__read_value(bytes, length, "inuse_space", &out->in_use, err);
	const char *series;
	double time_ns;

	ret = ret ?: profile__read_value(bytes, length, "alloc_space", &out->allocated, err);
	if (ret)
		return ret;
	series = profile__comment(out->in_use, "memory.series");
	out->page_bytes = number(out->in_use, "memory.page_bytes", 0);
	if (profile__comment(out->in_use, "gpu.devices"))
		return so_err(err, -EINVAL, "the profile is of GPUs: stakeout memory --gpu FILE");
	if (!series || !(out->page_bytes > 0 && out->page_bytes < MOST_PAGE_BYTES))
		return so_err(err, -EINVAL, "the profile is none of 'stakeout memory': it has no series of memory");
	ret = growth__read(series, &out->growth, err);
	if (ret)
		return ret;
	time_ns = number(out->in_use, "memory.time_ns", 0);
	out->cost_percent = time_ns > 0 ? 100 * number(out->in_use, "memory.cost_ns", 0) / time_ns : -1;
	out->paused_s = number(out->in_use, "memory.paused_ns", 0) / 1e9;
	out->lost = number(out->in_use, "memory.lost", 0);
	out->unread = number(out->in_use, "memory.unread_processes", 0);
	out->ended = number(out->in_use, "memory.ended", 0) > 0;
	out->pid = (long)number(out->in_use, "pid", 0);
	ret = memory_lines__new(out->in_use, out->allocated, out->page_bytes, &out->lines);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

void memory_report__clear(struct memory_report *report)
{
	profile__free(report->in_use);
	profile__free(report->allocated);
	memory_lines__free(report->lines);
}

const struct memory_line *memory_report__culprit(const struct memory_report *report)
{
	const struct memory_lines *lines = report->lines;

	if (report->growth.own.verdict != GROWTH_STEADY)
		return NULL;
	for (size_t i = 0; i < lines->n; i++)
		if (memory_line__keeps(&lines->lines[i]) &&
		    lines->lines[i].rate > CULPRIT_SHARE * report->growth.own.rate)
			return &lines->lines[i];
	return NULL;
}

static void print_verdict(const struct memory_report *r, FILE *out)
{
	const struct growth_kind *g = &r->growth.own;
	const struct memory_line *line = memory_report__culprit(r);

	if (g->verdict == GROWTH_UNKNOWN) {
		fprintf(out, "%s: %zu readings in %.1f s are too few (-d 20)\n", growth__word(g->verdict),
			r->growth.points, r->growth.seconds);
		return;
	}
	growth_text__print(g, out);
	if (line) {
		fprintf(out, ", %.1f of it kept by ", line->rate * PER_MINUTE);
		summary__print_name(line->text, strlen(line->text), out);
	}
	if (line && line->function_rate > 1.01 * line->rate)
		fprintf(out, ", %.1f with that function's other lines", line->function_rate * PER_MINUTE);
	if (!line && g->verdict == GROWTH_STEADY)
		fputs(", by no line that was seen to keep memory in both halves of the time", out);
	putc('\n', out);
	if (g->verdict == GROWTH_ONCE)
		fprintf(out,
			"by %+.1f MB, of which the second half had little: look again, it may have been needed once\n",
			(g->last - g->first) / MB);
	growth_text__print_others(&r->growth, out);
}

/* What makes the lines less than all there is. */
static void print_limits(const struct memory_report *r, FILE *out)
{
	double grown = r->growth.own.last - r->growth.own.first;

	if (r->ended)
		fputs("the recording has ended: what of its memory is in use is not known any more\n", out);
	if (!r->ended && r->growth.own.verdict == GROWTH_STEADY && r->lines->in_use < KNOWN_SHARE * grown)
		fprintf(out,
			"lines are known of %.0f %% of the growth: memory that was moved (mremap), copied after a "
			"fork, "
			"or mapped with MAP_POPULATE has none\n",
			100 * r->lines->in_use / grown);
	if (r->paused_s > 0)
		fprintf(out, "for %.1f s page faults came too fast to be seen within the budget: lines lack those\n",
			r->paused_s);
	if (r->lost > 0)
		fprintf(out, "%.0f stacks were lost\n", r->lost);
	if (r->unread > 0)
		fprintf(out, "the pages of %.0f process%s could not be looked up: they count as freed\n", r->unread,
			r->unread == 1 ? "" : "es");
}

void memory_report__print(const struct memory_report *r, unsigned top, FILE *out)
{
	const struct growth *g = &r->growth;
	size_t rows = r->lines->n < top ? r->lines->n : top;

	fprintf(out,
		"process %ld, %.1f s: %.1f MB of its own, files %.1f MB (%+.1f a minute), shared %.1f MB (%+.1f)\n",
		r->pid, g->seconds, g->own.last / MB, g->files.last / MB, growth_text__per_minute(g->files.rate),
		g->shared.last / MB, growth_text__per_minute(g->shared.rate));
	print_verdict(r, out);
	print_limits(r, out);
	if (rows)
		fputs("  kept, MB a minute  [95 % interval]   in use    touched  line\n", out);
	for (size_t i = 0; i < rows; i++) {
		const struct memory_line *l = &r->lines->lines[i];
		char interval[48];

		snprintf(interval, sizeof(interval), "[%.1f, %.1f]", l->low * PER_MINUTE, l->high * PER_MINUTE);
		fprintf(out, "%19.1f  %-16s %8.1f %10.1f  ", l->rate * PER_MINUTE, interval, l->in_use / MB,
			l->allocated / MB);
		summary__print_name(l->text, strlen(l->text), out);
		fputc('\n', out);
	}
	if (r->lines->n > rows)
		fprintf(out, "%*s  and %zu more lines\n", 19, "", r->lines->n - rows);
	if (r->cost_percent >= 0)
		fprintf(out, "cost: %.2f %% of the process's time\n", r->cost_percent);
}

static json_t *line_json(const struct memory_line *l)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "line", l->text, "allocated_bytes", l->allocated,
			 "in_use_bytes", l->in_use, "kept_bytes_per_s", l->rate, "kept_bytes_per_s_low", l->low,
			 "kept_bytes_per_s_high", l->high, "function_kept_bytes_per_s", l->function_rate, "keeps",
			 (int)memory_line__keeps(l));
}

json_t *memory_report__json(const struct memory_report *r)
{
	const struct memory_line *culprit = memory_report__culprit(r);
	const struct growth *g = &r->growth;
	const struct growth_kind *own = &g->own;
	json_t *lines = json_array();

	for (size_t i = 0; lines && i < r->lines->n; i++)
		json_array_append_new(lines, line_json(&r->lines->lines[i]));
	return json_pack("{s:I, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:s?, s:f, s:f, s:o?, "
			 "s:f, s:f, "
			 "s:f, s:b, s:o}",
			 "pid", (json_int_t)r->pid, "duration_s", g->seconds, "verdict", growth__word(own->verdict),
			 "anonymous_bytes", own->last, "anonymous_growth_bytes", own->last - own->first,
			 "growth_bytes_per_s", own->rate, "growth_bytes_per_s_low", own->low, "growth_bytes_per_s_high",
			 own->high, "file_bytes", g->files.last, "file_bytes_per_s", g->files.rate, "shared_bytes",
			 g->shared.last, "shared_bytes_per_s", g->shared.rate, "files", growth_text__json(&g->files),
			 "shared", growth_text__json(&g->shared), "line", culprit ? culprit->text : NULL,
			 "allocated_bytes", r->lines->allocated, "in_use_bytes", r->lines->in_use, "cost_percent",
			 r->cost_percent < 0 ? json_null() : json_real(r->cost_percent), "paused_s", r->paused_s,
			 "lost", r->lost, "unread_processes", r->unread, "ended", (int)r->ended, "lines", lines);
}
