// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_draw.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/summary/summary_parts.h"
#include "client/top/top_text.h"

#define HOME    "\033[H"
#define REVERSE "\033[7m"
#define BOLD    "\033[1m"
#define PLAIN   "\033[0m"
#define END     "\033[K\r\n" /* of a line */
#define BELOW   "\033[J"

#define FIGURES      29 /* columns before a name */
#define MEMORY       19 /* further ones, about memory, where there is room for them */
#define ROOM_COLUMNS 100
#define LEAST_ROOM   60 /* where they are wanted */
#define MB           1e6
#define HEADER_LINES 4 /* title, figures, what is shown, columns */

static const char *const help_[] = {
	"t  threads, by process",
	"f  functions",
	"l  source lines",
	"s  sort by the next column, then by name",
	"m  sort processes by memory of their own, then by its growth",
	"/  show only what has this text in it; Enter ends it, Esc shows all",
	"space  freeze, and go on",
	"up, down, PgUp, PgDn, Home, End  scroll",
	"q  quit",
	"",
	"All figures are percent of the time that is shown: 100 is one thread all the time.",
	"self, total: running, in the function itself and in all that it calls; waits: waiting",
	"below it, for something other than work.",
	"MB: a process's own memory, swapped out or not; MB/min: its growth in the last",
	"minute, 0.0 where it cannot be told from chance.",
};

/* What is written of a screen so far. */
struct pen {
	const struct top_screen *screen;
	FILE *out;
	size_t lines;
};

static bool has_room(const struct pen *pen)
{
	return !pen->screen->height || pen->lines < pen->screen->height;
}

/* The last line of a terminal ends without one more, which would scroll it. */
static void end_line(struct pen *pen)
{
	pen->lines++;
	if (!pen->screen->terminal)
		fputc('\n', pen->out);
	else
		fputs(has_room(pen) ? END : "\033[K", pen->out);
}

static void begin_style(const struct pen *pen, const char *style)
{
	if (pen->screen->terminal)
		fputs(style, pen->out);
}

/* A line that is cut at its end. style: control sequences, or "". */
static void write_line(struct pen *pen, const char *style, const char *text, size_t length)
{
	if (!has_room(pen))
		return;
	begin_style(pen, style);
	top_text__fit(text, length, pen->screen->width, TOP_CUT_END, pen->out);
	begin_style(pen, *style ? PLAIN : "");
	end_line(pen);
}

__attribute__((format(printf, 3, 4))) static void write_words(struct pen *pen, const char *style, const char *format,
							      ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	if (n < 0)
		return;
	write_line(pen, style, text, (size_t)n);
	free(text);
}

static double percent(double ns, const struct top_sums *sums)
{
	return sums->duration_ns > 0 ? 100 * ns / sums->duration_ns : 0;
}

/* "complete 99.8 %"; *text: the caller frees it. */
static int complete_text(const struct top_sums *sums, char **text)
{
	size_t length = 0;
	FILE *out = open_memstream(text, &length);

	if (!out)
		return -1;
	figures__print_complete(sums->complete, sums->complete + sums->truncated, out);
	return fclose(out);
}

static void write_figures(struct pen *pen, const struct top_view *view)
{
	const struct top_screen *screen = pen->screen;
	const struct top_sums *sums = screen->sums;
	char *complete = NULL, watched[48] = "";
	double samples = sums->complete + sums->truncated;

	if (isfinite(screen->watched_s))
		snprintf(watched, sizeof(watched), ", watched for %.0f s", screen->watched_s);
	if (sums->duration_ns > 0 && !complete_text(sums, &complete))
		write_words(pen, "", "%slast %.1f s: CPU %.1f %%, %.0f samples, %s, lost %.0f%s",
			    view->frozen ? "FROZEN   " : "", sums->duration_ns / 1e9,
			    percent(sums->ns[TOP_RUNNING], sums), samples, complete, sums->lost, watched);
	else
		write_words(pen, "", "nothing was seen yet%s", watched);
	free(complete);
}

static void write_cuda(struct pen *pen)
{
	for (unsigned i = 0; i < pen->screen->n_cuda; i++) {
		_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

		if (!top_cuda__text(pen->screen->cuda[i], text) && text->length)
			write_line(pen, "", text->bytes, text->length);
	}
}

/* "threads by running   filter: work" */
static void write_bar(struct pen *pen, const struct top_view *view, size_t n)
{
	static const char *const names[TOP_TABLES] = { "threads", "functions", "lines" };
	const char *by = top_rows__column(view->table, view->sort[view->table]);
	char filter[TOP_FILTER_BYTES + 32] = "";

	if (*view->filter || view->typing)
		snprintf(filter, sizeof(filter), "   /%s%s", view->filter, view->typing ? "_" : "");
	if (pen->screen->terminal)
		write_words(pen, BOLD, "%s by %s, %% of the time%s   (%zu)   t f l s m / space q, ? for help",
			    names[view->table], by, filter, n);
	else
		write_words(pen, "", "%s by %s, %% of the time", names[view->table], by);
}

static bool shows_memory(const struct top_screen *screen, const struct top_view *view)
{
	unsigned least = view->sort[TOP_THREADS] >= TOP_SORTS ? LEAST_ROOM : ROOM_COLUMNS;

	return view->table == TOP_THREADS && screen->width >= least;
}

static size_t figures_width(const struct top_screen *screen, const struct top_view *view)
{
	return FIGURES + (shows_memory(screen, view) ? MEMORY : 0);
}

static void write_heads(struct pen *pen, const struct top_view *view)
{
	static const char *const whats[TOP_TABLES] = { "process, thread, and where it is now", "function (file)",
						       "function (file:line)" };
	size_t figures = figures_width(pen->screen, view);
	char heads[TOP_COLUMNS][16], memory[40] = "";
	int width = 0;

	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		snprintf(heads[i], sizeof(heads[i]), "%s%s", i == view->sort[view->table] ? "*" : "",
			 top_rows__column(view->table, i));
	if (shows_memory(pen->screen, view))
		snprintf(memory, sizeof(memory), "%9s %8s ", view->sort[TOP_THREADS] == TOP_BY_MEMORY ? "*MB" : "MB",
			 view->sort[TOP_THREADS] == TOP_BY_GROWTH ? "*MB/min" : "MB/min");
	if (pen->screen->terminal && pen->screen->width > figures)
		width = (int)(pen->screen->width - figures);
	write_words(pen, REVERSE, "%8s %9s %8s %s %-*s", heads[0], heads[1], heads[2], memory, width,
		    whats[view->table]);
}

/* Nothing is known of waiting in a profile of CPU time. */
static void write_value(const struct pen *pen, int width, double ns, bool known)
{
	if (known)
		fprintf(pen->out, "%*.1f ", width, percent(ns, pen->screen->sums));
	else
		fprintf(pen->out, "%*s ", width, "-");
}

/* What the threads of a process wait together says nothing: most have nothing to do. */
static void write_waiting(const struct pen *pen, int width, const struct top_row *row)
{
	if (row->process && row->ns[TOP_WAITING] > pen->screen->sums->duration_ns && pen->screen->sums->wall)
		fprintf(pen->out, "%*s ", width, "");
	else
		write_value(pen, width, row->ns[2], pen->screen->sums->wall);
}

/* Of threads nothing: it is their process's. */
static void write_memory(const struct pen *pen, const struct top_row *row)
{
	double growth = 60 * row->growth / MB;

	if (!row->process)
		fprintf(pen->out, "%*s", MEMORY, "");
	else if (isnan(row->own))
		fprintf(pen->out, "%9s %8s ", "-", "-");
	else if (isnan(growth))
		fprintf(pen->out, "%9.1f %8s ", row->own / MB, "-");
	else
		fprintf(pen->out, "%9.1f %+8.1f ", row->own / MB, fabs(growth) < 0.05 ? 0 : growth);
}

/* Where there is no room for both, a thread's name has no more than two fifths of it. */
static void write_name(const struct pen *pen, const struct top_row *row, size_t left)
{
	const char *text = row->text.bytes ?: "";
	size_t name = row->name_length;

	if (name && top_text__columns(text, row->text.length) > left) {
		left -= top_text__fit(text, name, left * 2 / 5, TOP_CUT_END, pen->out);
		text += name;
	} else {
		name = 0;
	}
	top_text__fit(text, row->text.length - name, left, TOP_CUT_MIDDLE, pen->out);
}

static void write_row(struct pen *pen, const struct top_row *row, const struct top_view *view)
{
	const struct top_screen *screen = pen->screen;
	bool wall = screen->sums->wall, tree = view->table == TOP_THREADS;
	size_t figures = figures_width(screen, view), left = screen->width > figures ? screen->width - figures : 0;
	size_t indent = 2 * (size_t)row->depth;
	char id[64] = "";
	int n = 0;

	if (!has_room(pen))
		return;
	begin_style(pen, row->process ? BOLD : "");
	write_value(pen, 8, row->ns[0], true);
	write_value(pen, 9, row->ns[1], wall || !tree);
	write_waiting(pen, 8, row);
	if (shows_memory(screen, view))
		write_memory(pen, row);
	fputc(' ', pen->out);
	if (tree) {
		indent = indent > 16 ? 16 : indent;
		n = snprintf(id, sizeof(id), "%*s%lld ", (int)indent, "", (long long)(row->tid ?: row->pid));
	}
	left -= top_text__fit(id, (size_t)n, left, TOP_CUT_END, pen->out);
	write_name(pen, row, left);
	begin_style(pen, row->process ? PLAIN : "");
	end_line(pen);
}

static void write_rows(struct pen *pen, const struct top_rows *rows, const struct top_view *view)
{
	if (view->help) {
		for (size_t i = 0; i < sizeof(help_) / sizeof(help_[0]); i++)
			write_line(pen, "", help_[i], strlen(help_[i]));
		return;
	}
	write_heads(pen, view);
	for (size_t i = view->scroll[view->table]; i < rows->n && has_room(pen); i++)
		write_row(pen, &rows->list[i], view);
}

static size_t header_lines(const struct top_screen *screen)
{
	return HEADER_LINES + screen->n_cuda + (screen->note ? 1 : 0);
}

size_t top_draw__page(const struct top_screen *screen)
{
	size_t header = header_lines(screen);

	return screen->height > header ? screen->height - header : 1;
}

void top_draw(const struct top_screen *screen, const struct top_rows *rows, struct top_view *view, FILE *out)
{
	struct pen pen = { .screen = screen, .out = out };

	if (screen->height)
		top_view__clamp(view, rows->n, top_draw__page(screen));
	begin_style(&pen, HOME);
	write_words(&pen, BOLD, "stakeout top   %s", screen->title);
	write_figures(&pen, view);
	write_cuda(&pen);
	if (screen->note)
		write_line(&pen, "", screen->note, strlen(screen->note));
	write_bar(&pen, view, rows->n);
	write_rows(&pen, rows, view);
	begin_style(&pen, BELOW);
}
