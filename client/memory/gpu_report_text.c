// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "client/memory/gpu_report.h"

#define MB         1e6
#define PER_MINUTE (60 / MB)
/* Cached memory that grows by less than this part of what is reserved, and than this, a minute, is not reported. */
#define CACHE_SHARE 0.05
#define CACHE_LEAST (1 * MB)
/* Lines of what was in use when memory was refused. */
#define THEN_ROWS 5

static double at_least_0(double value)
{
	return value > 0 ? value : 0;
}

static double cached(const struct gpu_device *d)
{
	return at_least_0(d->reserved - d->allocated);
}

/* What it had before it was watched, or was left out. */
static double before(const struct gpu_device *d)
{
	return at_least_0(d->allocated - d->seen);
}

static void print_verdict(const struct gpu_report *r, FILE *out)
{
	const struct growth_kind *g = &r->growth.own;
	const struct memory_line *line = gpu_report__culprit(r);
	double cache_rate = r->growth.files.rate - g->rate;

	fputs(growth__word(g->verdict), out);
	if (g->verdict == GROWTH_UNKNOWN) {
		fprintf(out, ": %zu readings in %.1f s are too few (-d 20)\n", r->growth.points, r->growth.seconds);
		return;
	}
	fprintf(out, ": %+.1f MB a minute [%+.1f, %+.1f]", g->rate * PER_MINUTE, g->low * PER_MINUTE,
		g->high * PER_MINUTE);
	if (line)
		fprintf(out, ", %.1f of it kept by %s", line->rate * PER_MINUTE, line->text);
	if (line && line->function_rate > 1.01 * line->rate)
		fprintf(out, ", %.1f with that function's other lines", line->function_rate * PER_MINUTE);
	if (!line && g->verdict == GROWTH_STEADY)
		fputs(", by no line that was seen to keep memory in both halves of the time", out);
	putc('\n', out);
	if (cache_rate * 60 > CACHE_SHARE * r->growth.files.last && cache_rate * 60 > CACHE_LEAST)
		fprintf(out, "the cache grows: %+.1f MB a minute are reserved and in use by nobody\n",
			cache_rate * PER_MINUTE);
}

static void print_devices(const struct gpu_report *r, FILE *out)
{
	if (r->n_devices)
		fprintf(out, "%9s %-8s %10s %10s %17s %15s %14s %10s\n", "process", "device", "allocated", "reserved",
			"cached", "peak allocated", "peak reserved", "before");
	for (size_t i = 0; i < r->n_devices; i++) {
		const struct gpu_device *d = &r->devices[i];

		fprintf(out, "%9ld %-8s %10.1f %10.1f %10.1f (%3.0f%%) %15.1f %14.1f %10.1f%s\n", d->pid, d->name,
			d->allocated / MB, d->reserved / MB, cached(d) / MB,
			d->reserved > 0 ? 100 * cached(d) / d->reserved : 0, d->peak_allocated / MB,
			d->peak_reserved / MB, before(d) / MB, d->gone ? "  (ended)" : "");
	}
}

static int compare_in_use(const struct memory_line *a, const struct memory_line *b)
{
	if (a->in_use != b->in_use)
		return a->in_use > b->in_use ? 1 : -1;
	return strcmp(b->text, a->text);
}

/* The line that most of what was refused was asked for by. */
static const char *refused_line(const struct gpu_report *r)
{
	const struct memory_line *most = NULL;

	for (size_t i = 0; i < r->refused->n; i++)
		if (!most || r->refused->lines[i].in_use > most->in_use)
			most = &r->refused->lines[i];
	return most ? most->text : NULL;
}

/* Of what was in use when memory was refused last: the lines that had most of it. */
static void print_then(const struct gpu_report *r, FILE *out)
{
	const struct memory_lines *then = r->then;
	const struct memory_line *before = NULL;

	for (unsigned row = 0; row < THEN_ROWS; row++) {
		const struct memory_line *most = NULL;

		for (size_t i = 0; i < then->n; i++) {
			const struct memory_line *l = &then->lines[i];

			if ((!before || compare_in_use(l, before) < 0) && (!most || compare_in_use(l, most) > 0))
				most = l;
		}
		if (!most)
			return;
		fprintf(out, "%10.1f MB were in use then by %s\n", most->in_use / MB, most->text);
		before = most;
	}
}

static void print_refused(const struct gpu_report *r, FILE *out)
{
	const char *line = refused_line(r);

	for (size_t i = 0; i < r->n_devices; i++) {
		const struct gpu_device *d = &r->devices[i];

		if (d->refused > 0)
			fprintf(out,
				"OUT OF MEMORY %.0f time%s on %s: the last for %.1f MB, with %.1f allocated and %.1f "
				"cached\n",
				d->refused, d->refused == 1 ? "" : "s", d->name, d->refused_bytes / MB,
				d->refused_allocated / MB, at_least_0(d->refused_reserved - d->refused_allocated) / MB);
	}
	if (line)
		fprintf(out, "most of what was refused was asked for by %s\n", line);
	print_then(r, out);
}

static void print_lines(const struct gpu_report *r, unsigned top, FILE *out)
{
	size_t rows = r->n_by_use < top ? r->n_by_use : top;

	if (rows)
		fprintf(out, "%10s %10s %12s %14s  line\n", "in use", "peak <=", "allocations", "kept a minute");
	for (size_t i = 0; i < rows; i++) {
		const struct gpu_line *l = &r->by_use[i];

		fprintf(out, "%10.1f %10.1f %12.0f %14.1f  %s\n", l->line.in_use / MB, l->peak / MB, l->allocations,
			l->line.rate * PER_MINUTE, l->line.text);
	}
	if (r->n_by_use > rows)
		fprintf(out, "%10s and %zu more lines\n", "", r->n_by_use - rows);
}

/* What makes the lines less than all there is. */
static void print_limits(const struct gpu_report *r, FILE *out)
{
	double without = 0, left_out = 0, replaced = 0;

	for (size_t i = 0; i < r->n_devices; i++) {
		without += r->devices[i].without_stack;
		left_out += r->devices[i].left_out;
		replaced += r->devices[i].replaced;
	}
	if (r->ended)
		fputs("the process has ended: what it had in use then\n", out);
	if (r->skipped > 0)
		fprintf(out,
			"stacks were taken of %.1f %% of the allocations, by the budget: %.1f MB in use have no line\n",
			100 * r->stacks / (r->stacks + r->skipped), without / MB);
	if (left_out > 0)
		fprintf(out, "%.0f blocks were too many to be followed: they count as allocated before\n", left_out);
	if (replaced > 0)
		fprintf(out, "%.0f blocks were given out again without having been given back\n", replaced);
	if (r->lost > 0)
		fprintf(out, "%.0f stacks were lost\n", r->lost);
	if (r->hidden > 0)
		fprintf(out, "%.0f calls were of threads that may not be looked into\n", r->hidden);
	if (r->hidden_processes > 0)
		fprintf(out, "%.0f process%s more %s memory on GPUs, and may not be looked into\n", r->hidden_processes,
			r->hidden_processes == 1 ? "" : "es", r->hidden_processes == 1 ? "has" : "have");
	if (r->strange > 0)
		fprintf(out, "%.0f calls reported what can be no sizes: they are left out\n", r->strange);
	if (r->full > 0)
		fprintf(out, "%.0f calls were of more devices and processes than are followed: they are left out\n",
			r->full);
}

/* What it has is said with each block, so of a program that keeps what it has nothing is known. */
static void print_nothing(const struct gpu_report *r, FILE *out)
{
	fprintf(out,
		"process %ld, %.1f s: PyTorch's allocator neither gave out nor took back a block of a GPU's memory, so "
		"what it "
		"has is not known: a graph that is replayed takes none, and the backend cudaMallocAsync does not "
		"report "
		"any (stakeout cuda has its calls)\n",
		r->pid, (double)r->in_use->duration_ns / 1e9);
}

void gpu_report__print(const struct gpu_report *r, unsigned top, FILE *out)
{
	double allocated = 0, reserved = 0, earlier = 0;

	if (!r->n_devices) {
		print_nothing(r, out);
		print_limits(r, out);
		return;
	}
	for (size_t i = 0; i < r->n_devices; i++) {
		if (r->devices[i].gone)
			continue;
		allocated += r->devices[i].allocated;
		reserved += r->devices[i].reserved;
		earlier += before(&r->devices[i]);
	}
	fprintf(out, "process %ld, %.1f s, PyTorch on GPUs: %.1f MB allocated, %.1f cached; %.1f allocated before\n",
		r->pid, (double)r->in_use->duration_ns / 1e9, allocated / MB, at_least_0(reserved - allocated) / MB,
		earlier / MB);
	print_verdict(r, out);
	print_refused(r, out);
	print_limits(r, out);
	print_devices(r, out);
	print_lines(r, top, out);
	if (r->cost_percent >= 0)
		fprintf(out, "MB; cost: %.2f %% of the process's time\n", r->cost_percent);
}

static json_t *device_json(const struct gpu_device *d)
{
	return json_pack("{s:I, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
			 "pid", (json_int_t)d->pid, "device", d->name, "ended", (int)d->gone, "allocated_bytes",
			 d->allocated, "reserved_bytes", d->reserved, "cached_bytes", cached(d), "peak_allocated_bytes",
			 d->peak_allocated, "peak_reserved_bytes", d->peak_reserved, "allocated_before_bytes",
			 before(d), "without_stack_bytes", d->without_stack, "allocations", d->allocations, "frees",
			 d->frees, "left_out", d->left_out, "replaced", d->replaced, "refused", d->refused,
			 "refused_bytes", d->refused_bytes, "refused_allocated_bytes", d->refused_allocated,
			 "refused_reserved_bytes", d->refused_reserved);
}

static json_t *line_json(const struct gpu_line *l)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "line", l->line.text,
			 "in_use_bytes", l->line.in_use, "peak_bytes", l->peak, "allocations", l->allocations,
			 "allocated_bytes", l->line.allocated, "refused_bytes", l->refused, "in_use_at_refusal_bytes",
			 l->then, "kept_bytes_per_s", l->line.rate, "kept_bytes_per_s_low", l->line.low,
			 "kept_bytes_per_s_high", l->line.high, "keeps", (int)memory_line__keeps(&l->line));
}

json_t *gpu_report__json(const struct gpu_report *r)
{
	const struct memory_line *culprit = gpu_report__culprit(r);
	json_t *devices = json_array(), *lines = json_array();
	const struct growth_kind *g = &r->growth.own;

	for (size_t i = 0; devices && i < r->n_devices; i++)
		json_array_append_new(devices, device_json(&r->devices[i]));
	for (size_t i = 0; lines && i < r->n_by_use; i++)
		json_array_append_new(lines, line_json(&r->by_use[i]));
	return json_pack("{s:I, s:f, s:s, s:f, s:f, s:f, s:f, s:s?, s:o?, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:o, "
			 "s:o}",
			 "pid", (json_int_t)r->pid, "duration_s", (double)r->in_use->duration_ns / 1e9, "verdict",
			 growth__word(g->verdict), "growth_bytes_per_s", g->rate, "growth_bytes_per_s_low", g->low,
			 "growth_bytes_per_s_high", g->high, "reserved_growth_bytes_per_s", r->growth.files.rate,
			 "line", culprit ? culprit->text : NULL, "cost_percent",
			 r->cost_percent < 0 ? json_null() : json_real(r->cost_percent), "stacks", r->stacks, "skipped",
			 r->skipped, "lost", r->lost, "hidden", r->hidden, "hidden_processes", r->hidden_processes,
			 "strange", r->strange, "full", r->full, "ended", (int)r->ended, "devices", devices, "lines",
			 lines);
}
