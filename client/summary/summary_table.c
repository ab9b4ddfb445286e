// SPDX-License-Identifier: GPL-2.0-or-later
/* The tables of the summary: how shares and names are printed; functions, threads and processes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/summary_parts.h"
#include "stakeout/utf8.h"

#define NAME_COLUMNS  100
#define MIN_COLUMNS   20 /* of a name, on the narrowest terminal */
#define SHORT_COLUMNS 56
#define ID_DIGITS     64 /* of a container (daemon/processes/process_labels.h) */
#define ID_COLUMNS    12
#define FEW_SAMPLES   100

void summary__interval(const struct profile *profile, int64_t hits, int64_t total, char text[32])
{
	double low, high;

	share_interval(profile, hits, total, &low, &high);
	snprintf(text, 32, "[%4.1f, %4.1f]", 100 * low, 100 * high);
}

void summary__print_share(const struct share *share, const struct scope *scope, FILE *out)
{
	char interval[32];

	summary__interval(scope->profile, share->samples, scope->total.samples, interval);
	fprintf(out, "%5.1f %%  %-15s  ", summary__percent(share, &scope->total), interval);
	if (scope__timed(scope))
		fprintf(out, "%8.2f  ", share->ns / 1e9);
	else
		fprintf(out, "%8s  ", "-");
}

/* A long name loses its middle: C++ keeps the scope in front and the arguments behind. */
static void print_cut(const char *text, size_t length, size_t width, FILE *out)
{
	const size_t tail = width / 3, head = width - 1 - tail;
	size_t columns = 0, head_end = 0, tail_begin = 0;

	for (size_t i = 0; i < length; i += utf8__sequence(text + i, length - i))
		columns++;
	if (columns <= width) {
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

void summary__bold(const struct scope *scope, FILE *out)
{
	if (scope->style->color)
		fputs("\033[1m", out);
}

void summary__plain(const struct scope *scope, FILE *out)
{
	if (scope->style->color)
		fputs("\033[0m", out);
}

void summary__title(const struct scope *scope, const char *text, FILE *out)
{
	if (!scope->style->page)
		return;
	fputc('\n', out);
	summary__bold(scope, out);
	fputs(text, out);
	summary__plain(scope, out);
	fputc('\n', out);
}

/* Looks in wall time are so many a second; samples are counted one by one. */
void summary__how_sure(const struct scope *scope, int64_t samples, FILE *out)
{
	const struct profile *profile = scope->profile;
	double each = profile->wall && profile->observation > 0 ? profile->observation : 1, n = (double)samples / each;
	const char *what = profile->wall ? "look" : profile__comment(profile, "event") ? "call" : "sample";

	fprintf(out, "  how sure: within the interval in 95 of 100 cases, by %.0f %s%s", n, what, n < 1.5 ? "" : "s");
	if (n < FEW_SAMPLES)
		fprintf(out, "; that is few: look for longer, or more often");
	fputc('\n', out);
}

void summary__print_cell(const struct scope *scope, size_t column, const char *text, size_t length, FILE *out)
{
	size_t columns = scope->style->columns, width = columns > column + MIN_COLUMNS ? columns - column : MIN_COLUMNS;

	if (!columns)
		width = NAME_COLUMNS;
	print_cut(text, length, width, out);
}

void summary__print_name(const char *text, size_t length, FILE *out)
{
	print_cut(text, length, NAME_COLUMNS, out);
}

void summary__print_short(const char *text, size_t length, FILE *out)
{
	print_cut(text, length, SHORT_COLUMNS, out);
}

int summary__print_foreign(const char *words, FILE *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	int ret = frame_text__words(words, text);

	if (!ret)
		summary__print_name(text->bytes, text->length, out);
	return ret;
}

void summary__print_rest(const struct rows *rows, size_t n, const char *what, FILE *out)
{
	size_t more = 0;

	for (size_t i = n; i < rows->n; i++)
		more += rows->list[i].self.samples > 0;
	if (more)
		fprintf(out, "and %zu more %s\n", more, what);
}

void summary__functions(const struct rows *rows, const struct scope *scope, FILE *out)
{
	size_t n = 0;

	summary__title(scope, "Functions, by the time in themselves", out);
	fprintf(out, "   self  [95 %% interval]    total  function (file)%s\n",
		scope->options->python_only ? ", with the native code it calls" : "");
	for (; n < rows->n && n < scope->style->top && rows->list[n].self.samples; n++) {
		const struct row *row = &rows->list[n];
		char interval[32];

		summary__interval(scope->profile, row->self.samples, scope->total.samples, interval);
		fprintf(out, "%5.1f %%  %-15s  %5.1f %%  ", summary__percent(&row->self, &scope->total), interval,
			summary__percent(&row->total, &scope->total));
		summary__print_cell(scope, 36, row->text, row->length, out);
		fputc('\n', out);
	}
	summary__print_rest(rows, n, rows->n - n == 1 ? "function" : "functions", out);
}

int summary__print_labels(const char *before, const char *rank, const char *container, FILE *out)
{
	char id[ID_COLUMNS + 1];
	int ret = 0;

	if (rank && *rank) {
		fprintf(out, "%srank ", before);
		ret = summary__print_foreign(rank, out);
	}
	if (!ret && container && *container) {
		snprintf(id, sizeof(id), "%s", container);
		fprintf(out, "%scontainer ", before);
		/* Other tools have names there. */
		ret = summary__print_foreign(strlen(container) == ID_DIGITS ? id : container, out);
	}
	return ret;
}

static void print_total(const struct row *row, bool with_container, const struct scope *scope, FILE *out)
{
	summary__print_share(&row->total, scope, out);
	summary__print_cell(scope, SUMMARY_SHARE_COLUMNS, row->text, row->length, out);
	if (row->alike)
		fprintf(out, " (%zu processes)", row->alike);
	summary__print_labels("  ", row->rank, with_container ? row->container : NULL, out);
	fputc('\n', out);
}

static bool is_python(const struct row *row, const struct scope *scope)
{
	return row->line != ROW_NO_LINE && scope->profile->lines[row->line].python;
}

void summary__totals(struct rows *rows, const struct scope *scope, FILE *out)
{
	size_t printed = 0, python = 0;

	rows__sort_by_total(rows);
	for (size_t i = 0; i < rows->n; i++)
		python += is_python(&rows->list[i], scope);
	summary__title(scope,
		       python ? "Python functions, with all that they call" : "Functions, with all that they call",
		       out);
	fprintf(out, "  total  [95 %% interval]  %s %sfunction (file), with all that it calls\n",
		summary__seconds_head(scope), python ? "Python " : "");
	for (size_t i = 0; i < rows->n && printed < scope->style->top; i++) {
		if (python && !is_python(&rows->list[i], scope))
			continue;
		print_total(&rows->list[i], false, scope, out);
		printed++;
	}
}

int summary__processes(const struct rows *rows, const struct scope *scope, FILE *out)
{
	struct rows joined = { .n = 0 };
	int ret = 0;

	if (rows->n < 2)
		return 0;
	if (scope->style->details) {
		summary__threads(rows, "process", scope, out);
		return 0;
	}
	ret = rows__join_alike(rows, scope, &joined);
	if (!ret)
		summary__threads(&joined, "process", scope, out);
	free(joined.list);
	return ret;
}

void summary__threads(const struct rows *rows, const char *what, const struct scope *scope, FILE *out)
{
	size_t more = rows->n > scope->style->top ? rows->n - scope->style->top : 0;
	const char *plural_ending = !strcmp(what, "process") ? "es" : "s";

	if (!rows->n || (rows->n < 2 && !rows->list[0].alike))
		return;
	summary__title(scope, !strcmp(what, "process") ? "Processes" : "Threads", out);
	fprintf(out, "    %s  [95 %% interval]  %s %s\n", scope->profile->wall ? "  %" : "CPU",
		summary__seconds_head(scope), what);
	for (size_t i = 0; i < rows->n && i < scope->style->top; i++)
		print_total(&rows->list[i], !strcmp(what, "process"), scope, out);
	if (more)
		fprintf(out, "and %zu more %s%s\n", more, what, more == 1 ? "" : plural_ending);
}
