// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls and allocations by source line, over threads and stacks; failures by code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_summary_parts.h"
#include "profile/profile.h"

bool cuda_places__is_python(const char *frame)
{
	size_t n = strlen(frame), digits = 0;

	if (n < 2 || frame[n - 1] != ')')
		return false;
	for (n--; n && frame[n - 1] >= '0' && frame[n - 1] <= '9'; n--)
		digits++;
	return digits && n && frame[n - 1] == ':';
}

static const char *place(const char *line, bool python_only)
{
	if (python_only && !cuda_places__is_python(line))
		return PROFILE_NATIVE;
	return *line ? line : "[unknown]";
}

static int by_place(const void *a, const void *b)
{
	const struct cuda_line_row *x = a, *y = b;

	return strcmp(x->line, y->line) ?: compare_numbers(x->event, y->event) ?: strcmp(x->api, y->api);
}

/* Most time first within a place, so that the first row's stack is the one to keep. */
static int by_place_and_time(const void *a, const void *b)
{
	const struct cuda_line_row *x = a, *y = b;

	return by_place(a, b) ?: compare_numbers(y->total_ns, x->total_ns);
}

static int by_time(const void *a, const void *b)
{
	const struct cuda_line_row *x = a, *y = b;

	return compare_numbers(y->total_ns, x->total_ns) ?: compare_numbers(y->calls, x->calls) ?: by_place(a, b);
}

static bool has_waited(const struct cuda_line_row *row)
{
	bool slow = row->total_ns / row->calls >= CUDA_WAITED_NS;

	switch (row->event) {
	case SO_CUDA_SYNC:
	case SO_CUDA_BLOCKING_COPY:
		return true;
	case SO_CUDA_COPY:
	case SO_CUDA_ALLOC:
	case SO_CUDA_FREE:
		return slow;
	default:
		return false;
	}
}

/* Rows of the same place become one; the array is sorted by place. Returns how many are left. */
static size_t merge_lines(struct cuda_line_row *rows, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct cuda_line_row *row = &rows[kept];

		if (!kept || by_place(&rows[kept - 1], &rows[i])) {
			*row = rows[i];
			kept++;
			continue;
		}
		row--;
		row->calls = cuda_stats__sum(row->calls, rows[i].calls);
		row->total_ns = cuda_stats__sum(row->total_ns, rows[i].total_ns);
		row->bytes = cuda_stats__sum(row->bytes, rows[i].bytes);
		row->stacks = cuda_stats__sum(row->stacks, rows[i].stacks);
		row->needless = cuda_stats__sum(row->needless, rows[i].needless);
		row->needless_ns = cuda_stats__sum(row->needless_ns, rows[i].needless_ns);
		row->sampled |= rows[i].sampled;
	}
	return kept;
}

/* Of "function (file.cpp:12 in program)" the part before the number; 0: it is none such. */
static size_t native_part(const char *line)
{
	const char *in = NULL, *p;

	for (p = strstr(line, " in "); p; p = strstr(p + 1, " in "))
		in = p;
	for (p = in; p && p > line && p[-1] >= '0' && p[-1] <= '9';)
		p--;
	return p && p != in && p > line && p[-1] == ':' ? (size_t)(p - line) : 0;
}

/*
 * A line of Python, or the lines of a native function: there a copy and the wait for it stand below each other. These
 * are neighbours in the order of places.
 */
static bool one_piece(const char *a, const char *b)
{
	size_t n = native_part(a);

	return !strcmp(a, b) || (n && n == native_part(b) && !strncmp(a, b, n));
}

/* The rows of one piece of code: its syncs learn of its asynchronous copies. */
static void note_copies(struct cuda_line_row *rows, size_t n)
{
	uint64_t copies = 0, bytes = 0;
	const char *line = NULL;
	bool one_line = true;

	for (size_t i = 0; i < n; i++) {
		/* A prefetch brings nothing that a wait is for. */
		if (rows[i].event != SO_CUDA_COPY || strstr(rows[i].api, "Prefetch"))
			continue;
		one_line = one_line && (!line || !strcmp(line, rows[i].line));
		line = rows[i].line;
		copies = cuda_stats__sum(copies, rows[i].calls);
		bytes = cuda_stats__sum(bytes, rows[i].bytes);
	}
	for (size_t i = 0; i < n; i++) {
		if (rows[i].event != SO_CUDA_SYNC)
			continue;
		rows[i].copies = copies;
		rows[i].copied_bytes = bytes;
		rows[i].copies_of_function = line && !(one_line && !strcmp(line, rows[i].line));
	}
}

int cuda_summary__add_lines(struct cuda_summary *summary, const struct cuda_report *report, bool python_only)
{
	struct cuda_line_row *rows = calloc(report->n_lines + 1, sizeof(*rows));
	size_t n;

	summary->lines = rows;
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < report->n_lines; i++) {
		const struct cuda_line *line = &report->lines[i];

		rows[i] = (struct cuda_line_row){ .kind = line->kind,
						  .event = line->event,
						  .api = line->api,
						  .line = place(line->line, python_only),
						  .stack = &line->stack,
						  .calls = line->calls,
						  .total_ns = line->total_ns,
						  .bytes = line->bytes,
						  .stacks = line->stacks,
						  .needless = line->needless,
						  .needless_ns = line->needless_ns,
						  .sampled = line->sampled };
	}
	qsort(rows, report->n_lines, sizeof(*rows), by_place_and_time);
	summary->n_lines = merge_lines(rows, report->n_lines);
	for (size_t i = 0; i < summary->n_lines; i += n) {
		for (n = 1; i + n < summary->n_lines && one_piece(rows[i].line, rows[i + n].line);)
			n++;
		note_copies(rows + i, n);
	}
	for (size_t i = 0; i < summary->n_lines; i++) {
		rows[i].waited = has_waited(&rows[i]);
		summary->n_waits += rows[i].waited;
	}
	qsort(rows, summary->n_lines, sizeof(*rows), by_time);
	return 0;
}

static int by_site(const void *a, const void *b)
{
	const struct cuda_allocation *x = a, *y = b;

	return strcmp(x->line, y->line) ?: (int)x->host - (int)y->host;
}

static int by_site_and_calls(const void *a, const void *b)
{
	const struct cuda_allocation *x = a, *y = b;

	return by_site(a, b) ?: compare_numbers(y->allocations, x->allocations);
}

static int by_calls(const void *a, const void *b)
{
	const struct cuda_allocation *x = a, *y = b;
	uint64_t x_calls = cuda_stats__sum(x->allocations, x->frees),
		 y_calls = cuda_stats__sum(y->allocations, y->frees);

	return compare_numbers(y_calls, x_calls) ?: compare_numbers(y->bytes, x->bytes) ?: by_site(a, b);
}

static int64_t add_signed(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* The array is sorted by site. */
static size_t merge_sites(struct cuda_allocation *rows, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct cuda_allocation *row = &rows[kept];

		if (!kept || by_site(&rows[kept - 1], &rows[i])) {
			*row = rows[i];
			kept++;
			continue;
		}
		row--;
		row->allocations = cuda_stats__sum(row->allocations, rows[i].allocations);
		row->frees = cuda_stats__sum(row->frees, rows[i].frees);
		row->bytes = cuda_stats__sum(row->bytes, rows[i].bytes);
		row->current_bytes = add_signed(row->current_bytes, rows[i].current_bytes);
		row->peak_bytes = add_signed(row->peak_bytes, rows[i].peak_bytes);
	}
	return kept;
}

int cuda_summary__add_sites(struct cuda_summary *summary, const struct cuda_report *report, bool python_only)
{
	struct cuda_allocation *rows = calloc(report->n_allocations + 1, sizeof(*rows));

	summary->sites = rows;
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < report->n_allocations; i++) {
		rows[i] = report->allocations[i];
		rows[i].line = place(rows[i].line, python_only);
	}
	qsort(rows, report->n_allocations, sizeof(*rows), by_site_and_calls);
	summary->n_sites = merge_sites(rows, report->n_allocations);
	qsort(rows, summary->n_sites, sizeof(*rows), by_calls);
	return 0;
}

static int by_code(const void *a, const void *b)
{
	const struct cuda_error_row *x = a, *y = b;

	return compare_numbers(x->code, y->code) ?: strcmp(x->api, y->api) ?: strcmp(x->library, y->library);
}

static int by_count(const void *a, const void *b)
{
	const struct cuda_error_row *x = a, *y = b;

	return compare_numbers(y->count, x->count) ?: by_code(a, b);
}

int cuda_summary__add_errors(struct cuda_summary *summary, const struct cuda_report *report)
{
	struct cuda_error_row *rows = calloc(report->n_errors + 1, sizeof(*rows));
	size_t n = 0, kept = 0;

	summary->errors = rows;
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < report->n_errors; i++) {
		const struct cuda_error *error = &report->errors[i];

		if (error->code != CUDA_NOT_READY)
			rows[n++] = (struct cuda_error_row){ error->api, cuda_summary__path(error->library),
							     error->code, error->count };
	}
	qsort(rows, n, sizeof(*rows), by_code);
	for (size_t i = 0; i < n; i++) {
		if (kept && !by_code(&rows[kept - 1], &rows[i]))
			rows[kept - 1].count = cuda_stats__sum(rows[kept - 1].count, rows[i].count);
		else
			rows[kept++] = rows[i];
	}
	qsort(rows, kept, sizeof(*rows), by_count);
	summary->n_errors = kept;
	return 0;
}
