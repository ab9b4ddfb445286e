// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "client/memory/alloc_report.h"
#include "client/memory/growth_text.h"
#include "client/summary/summary_parts.h"

#define MB         1e6
#define PER_MINUTE (60 / MB)

static void print_verdict(const struct alloc_report *r, FILE *out)
{
	const struct growth_kind *g = &r->memory.growth.own;
	const struct memory_line *line = alloc_report__culprit(r);

	fputs("the process's memory is ", out);
	if (g->verdict == GROWTH_UNKNOWN) {
		fprintf(out, "%s: %zu readings in %.1f s are too few (-d 20)\n", growth__word(g->verdict),
			r->memory.growth.points, r->memory.growth.seconds);
		return;
	}
	growth_text__print(g, out);
	if (line) {
		fputs("; by the calls that were chosen ", out);
		summary__print_name(line->text, strlen(line->text), out);
		fprintf(out, " keeps %.1f [%.1f, %.1f]", line->rate * PER_MINUTE, line->low * PER_MINUTE,
			line->high * PER_MINUTE);
	} else if (g->verdict == GROWTH_STEADY && r->windowed) {
		fputs("; no line is named, as not all frees are seen ('stakeout memory' may name one)", out);
	} else if (g->verdict == GROWTH_STEADY) {
		fputs(", by no line that was seen to keep memory in both halves of the time", out);
	}
	putc('\n', out);
}

/* What makes the figures less than all there is. */
static void print_limits(const struct alloc_report *r, FILE *out)
{
	if (r->memory.ended)
		fputs("the recording has ended: what of its memory is in use is not known any more\n", out);
	if (r->windowed)
		fprintf(out,
			"calls came too fast to be seen all the time within the budget: they were in %.1f %% of it, "
			"and "
			"are scaled; what is in use is at most that much\n",
			r->seen_percent);
	if (r->dense)
		fputs("windows had too little of the program's own time, beside that of the probes, to scale by: "
		      "figures may be wrong by a multiple\n",
		      out);
	if (r->unfollowed > 0)
		fprintf(out, "%.0f calls of operator new are counted and not followed: they count as freed\n",
			r->unfollowed);
	if (r->left_out > 0)
		fprintf(out, "%.0f blocks were too many to be followed: they count as freed\n", r->left_out);
	if (r->memory.lost > 0)
		fprintf(out, "%.0f stacks were lost\n", r->memory.lost);
	if (r->hidden > 0)
		fprintf(out, "%.0f calls were of threads that may not be looked into\n", r->hidden);
	if (r->strange > 0)
		fprintf(out, "%.0f calls asked for what can be no size: they are left out\n", r->strange);
}

static void print_kinds(const struct alloc_report *r, FILE *out)
{
	if (r->n_kinds)
		fprintf(out, "%-10s %14s %10s %10s %10s %12s\n", "allocator", "allocated MB", "+-", "freed", "in use",
			"calls");
	for (size_t i = 0; i < r->n_kinds; i++) {
		const struct alloc_kind *k = &r->kinds[i];

		fprintf(out, "%-10s %14.1f %10.1f %10.1f %10.1f %12.0f\n", k->name, k->bytes / MB,
			alloc_report__error(r, k->bytes) / MB, k->freed / MB, k->in_use / MB, k->calls);
	}
}

static void print_age(double ns, FILE *out)
{
	static const char *const units[] = { "us", "ms", "s" };
	unsigned unit = 0;

	if (ns <= 0) {
		fprintf(out, " %8s", "-");
		return;
	}
	for (ns /= 1e3; ns >= 1000 && unit < 2; unit++)
		ns /= 1e3;
	fprintf(out, " %5.*f %-2s", ns < 10 ? 1 : 0, ns, units[unit]);
}

static void print_lines(const struct alloc_report *r, unsigned top, FILE *out)
{
	size_t rows = r->n_lines < top ? r->n_lines : top;

	if (rows)
		fprintf(out, "%12s %8s %10s %10s %12s %8s  line\n", "allocated MB", "+-", "freed", "in use", "calls",
			"age");
	for (size_t i = 0; i < rows; i++) {
		const struct alloc_line *l = &r->lines[i];

		fprintf(out, "%12.1f %8.1f %10.1f %10.1f %12.0f", l->line.allocated / MB,
			alloc_report__error(r, l->line.allocated) / MB, l->freed / MB, l->line.in_use / MB, l->calls);
		print_age(l->age_ns, out);
		fputs("  ", out);
		summary__print_name(l->line.text, strlen(l->line.text), out);
		fputc('\n', out);
	}
	if (r->n_lines > rows)
		fprintf(out, "%12s and %zu more lines\n", "", r->n_lines - rows);
}

void alloc_report__print(const struct alloc_report *r, unsigned top, FILE *out)
{
	double freed = 0, in_use = 0;

	for (size_t i = 0; i < r->n_kinds; i++) {
		freed += r->kinds[i].freed;
		in_use += r->kinds[i].in_use;
	}
	fprintf(out, "process %ld, %.1f s: allocated %.1f +- %.1f MB (standard error), of it freed %.1f, in use %.1f\n",
		r->memory.pid, (double)r->memory.in_use->duration_ns / 1e9, r->bytes / MB, r->error / MB, freed / MB,
		in_use / MB);
	print_verdict(r, out);
	print_limits(r, out);
	print_kinds(r, out);
	print_lines(r, top, out);
	if (r->memory.cost_percent >= 0)
		fprintf(out, "age: half of what was freed was younger; cost: %.2f %% of the process's time\n",
			r->memory.cost_percent);
}

static json_t *kind_json(const struct alloc_report *r, const struct alloc_kind *k)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "allocator", k->name, "allocated_bytes", k->bytes,
			 "standard_error_bytes", alloc_report__error(r, k->bytes), "freed_bytes", k->freed,
			 "in_use_bytes", k->in_use, "calls", k->calls, "chosen_calls", k->chosen);
}

static json_t *line_json(const struct alloc_report *r, const struct alloc_line *l)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:b}", "line", l->line.text,
			 "allocated_bytes", l->line.allocated, "standard_error_bytes",
			 alloc_report__error(r, l->line.allocated), "freed_bytes", l->freed, "in_use_bytes",
			 l->line.in_use, "calls", l->calls, "median_age_s",
			 l->age_ns > 0 ? json_real(l->age_ns / 1e9) : json_null(), "kept_bytes_per_s", l->line.rate,
			 "kept_bytes_per_s_low", l->line.low, "kept_bytes_per_s_high", l->line.high, "keeps",
			 (int)(!r->windowed && memory_line__keeps(&l->line)));
}

json_t *alloc_report__json(const struct alloc_report *r)
{
	const struct memory_line *culprit = alloc_report__culprit(r);
	const struct growth_kind *g = &r->memory.growth.own;
	json_t *kinds = json_array(), *lines = json_array();

	for (size_t i = 0; kinds && i < r->n_kinds; i++)
		json_array_append_new(kinds, kind_json(r, &r->kinds[i]));
	for (size_t i = 0; lines && i < r->n_lines; i++)
		json_array_append_new(lines, line_json(r, &r->lines[i]));
	return json_pack(
		"{s:I, s:f, s:s, s:f, s:f, s:f, s:s?, s:f, s:f, s:f, s:b, s:b, s:f, s:o, s:f, s:f, s:f, s:f, s:f, "
		"s:f, s:f, s:f, s:f, s:b, s:o, s:o}",
		"pid", (json_int_t)r->memory.pid, "duration_s", (double)r->memory.in_use->duration_ns / 1e9, "verdict",
		growth__word(g->verdict), "growth_bytes_per_s", g->rate, "growth_bytes_per_s_low", g->low,
		"growth_bytes_per_s_high", g->high, "line", culprit ? culprit->text : NULL, "allocated_bytes", r->bytes,
		"standard_error_bytes", r->error, "sample_bytes", r->sample_bytes, "windowed", (int)r->windowed,
		"dense", (int)r->dense, "seen_percent", r->seen_percent, "cost_percent",
		r->memory.cost_percent < 0 ? json_null() : json_real(r->memory.cost_percent), "probe_hits", r->hits,
		"chosen_calls", r->chosen, "nested_calls", r->nested, "lost", r->memory.lost, "left_out", r->left_out,
		"replaced", r->replaced, "failed", r->failed, "hidden", r->hidden, "strange", r->strange, "ended",
		(int)r->memory.ended, "allocators", kinds, "lines", lines);
}
