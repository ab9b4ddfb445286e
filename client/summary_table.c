// SPDX-License-Identifier: GPL-2.0-or-later
/* The tables of the summary: where the time went, by function and by Python line. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/frame_text.h"
#include "client/selection.h"
#include "client/summary_parts.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"
#include "stakeout/utf8.h"

#define TOP_ROWS          10
#define NAME_COLUMNS      100
#define TEXT_BUDGET_BYTES ((size_t)4 << 30) /* of names read, as in folded.c */
#define NO_LINE           SIZE_MAX

/* Samples by text. */
struct tally {
	struct intern texts;
	int64_t *counts;
	size_t capacity;
	size_t text_bytes;
	struct text text; /* the next one to be added */
};

static void tally__clear(struct tally *tally)
{
	intern__clear(&tally->texts);
	text__clear(&tally->text);
	free(tally->counts);
}
CLEANUP_DEFINE(struct tally *, tally, tally__clear)

static int tally__add(struct tally *tally, int64_t count)
{
	uint32_t number;
	int r;

	tally->text_bytes += tally->text.length;
	if (tally->text_bytes > TEXT_BUDGET_BYTES)
		return -EFBIG;
	if (ARRAY_RESERVE(tally->counts, tally->capacity, tally->texts.n_keys + 1))
		return -ENOMEM;
	r = intern__add(&tally->texts, tally->text.bytes, tally->text.length, &number);
	if (r < 0)
		return r;
	tally->counts[number] = (r ? 0 : tally->counts[number]) + count;
	return 0;
}

struct row {
	const char *text; /* not terminated */
	size_t length;
	int64_t count;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	size_t n = x->length < y->length ? x->length : y->length;
	int r;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	r = memcmp(x->text, y->text, n);
	return r ? r : (x->length > y->length) - (x->length < y->length);
}

void summary__interval(int64_t hits, int64_t total, char text[32])
{
	double low, high;

	wilson_interval((uint64_t)hits, (uint64_t)total, &low, &high);
	snprintf(text, 32, "[%4.1f, %4.1f]", 100 * low, 100 * high);
}

/* A long name loses its middle: C++ keeps the scope in front and the arguments behind. */
void summary__print_name(const char *text, size_t length, FILE *out)
{
	const size_t tail = NAME_COLUMNS / 3, head = NAME_COLUMNS - 1 - tail;
	size_t columns = 0, head_end = 0, tail_begin = 0;

	for (size_t i = 0; i < length; i += utf8__sequence(text + i, length - i))
		columns++;
	if (columns <= NAME_COLUMNS) {
		fwrite(text, 1, length, out);
		return;
	}
	for (size_t i = 0, column = 0; column < columns - tail; column++) {
		i += utf8__sequence(text + i, length - i);
		if (column + 1 == head)
			head_end = i;
		tail_begin = i;
	}
	fprintf(out, "%.*s…", (int)head_end, text);
	fwrite(text + tail_begin, 1, length - tail_begin, out);
}

static void print_row(const struct row *row, int64_t total, FILE *out)
{
	char interval[32];

	summary__interval(row->count, total, interval);
	fprintf(out, "%5.1f %%  %-15s  ", 100 * (double)row->count / (double)total, interval);
	summary__print_name(row->text, row->length, out);
	fputc('\n', out);
}

/* what: "function" */
static int tally__print(const struct tally *tally, const char *what, int64_t total, FILE *out)
{
	size_t n = tally->texts.n_keys;
	_cleanup_free_ struct row *rows = calloc(n + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row){ intern__key(&tally->texts, i), intern__length(&tally->texts, i),
					tally->counts[i] };
	qsort(rows, n, sizeof(*rows), compare_rows);
	for (size_t i = 0; i < n && i < TOP_ROWS; i++)
		print_row(&rows[i], total, out);
	if (n > TOP_ROWS)
		fprintf(out, "and %zu more %s%s\n", n - TOP_ROWS, what, plural((int64_t)(n - TOP_ROWS)));
	return 0;
}

static size_t innermost(const struct profile *profile, const struct profile_sample *sample, bool python)
{
	for (size_t i = 0; i < sample->n_lines; i++)
		if (!python || profile->lines[sample->lines[i]].python)
			return sample->lines[i];
	return NO_LINE;
}

/* Samples by innermost line; the last element is for those without one. Malloc'ed; NULL: out of memory. */
static int64_t *count_by_line(const struct profile *profile, const struct render_options *options, bool python)
{
	int64_t *counts = calloc(profile->n_lines + 1, sizeof(*counts));

	for (size_t i = 0; counts && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		size_t line = innermost(profile, sample, python);

		if (selection__takes(options, sample))
			counts[line == NO_LINE ? profile->n_lines : line] += sample->count;
	}
	return counts;
}

/* The lines with samples, by function or each by itself. */
static int tally__add_lines(struct tally *tally, const struct profile *profile, const int64_t *counts,
			    bool by_function)
{
	int r = 0;

	for (size_t i = 0; !r && i < profile->n_lines; i++) {
		if (!counts[i])
			continue;
		tally->text.length = 0;
		r = by_function ? frame_text__function(&profile->lines[i], &tally->text)
				: frame_text__folded(&profile->lines[i], false, &tally->text);
		if (!r)
			r = tally__add(tally, counts[i]);
	}
	return r;
}

int summary__functions(const struct profile *profile, const struct render_options *options, int64_t total,
		       FILE *out)
{
	_cleanup_free_ int64_t *counts = count_by_line(profile, options, options->python_only);
	_cleanup_(tally) struct tally *tally = &(struct tally){ .text_bytes = 0 };
	int r = counts ? tally__add_lines(tally, profile, counts, true) : -ENOMEM;

	if (!r && counts[profile->n_lines]) {
		tally->text.length = 0;
		r = frame_text__words(options->python_only ? RENDER_NATIVE : "[no stack]", &tally->text);
		if (!r)
			r = tally__add(tally, counts[profile->n_lines]);
	}
	if (r < 0)
		return r;
	fprintf(out, "   self  [95 %% interval]  function (file)%s\n",
		options->python_only ? ", with the native code it calls" : "");
	return tally__print(tally, "function", total, out);
}

int summary__lines(const struct profile *profile, const struct render_options *options, int64_t total,
		   FILE *out)
{
	_cleanup_free_ int64_t *counts = count_by_line(profile, options, true);
	_cleanup_(tally) struct tally *tally = &(struct tally){ .text_bytes = 0 };
	struct row none = { .text = "no Python frame", .length = strlen("no Python frame") };
	int r = counts ? tally__add_lines(tally, profile, counts, false) : -ENOMEM;

	if (r < 0 || !tally->texts.n_keys)
		return r;
	fprintf(out, "   line  [95 %% interval]  function (file.py:line), with the native code it calls\n");
	r = tally__print(tally, "line", total, out);
	none.count = counts[profile->n_lines];
	if (!r && none.count)
		print_row(&none, total, out);
	return r;
}
