// SPDX-License-Identifier: GPL-2.0-or-later
/* A comparison as text, and as Markdown: the same tables. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "client/diff/compare.h"
#include "client/render/frame_text.h"

#define NAME_COLUMNS 100

/* What is printed, and how. */
struct printing {
	const struct comparison *c;
	FILE *out;
	size_t limit;
	bool all, markdown;
};

enum presence { IN_BOTH, ONLY_NOW, ONLY_BASE };

static enum presence presence_of(const struct compared *row)
{
	return row->in_base && row->in_now ? IN_BOTH : row->in_now ? ONLY_NOW : ONLY_BASE;
}

static void print_q(const struct compared *row, char out[16])
{
	if (!row->tested)
		snprintf(out, 16, "-");
	else if (row->q < 0.0001)
		snprintf(out, 16, "<0.0001");
	else
		snprintf(out, 16, "%.4f", row->q);
}

/* In Markdown a '|' would end the cell, and '`' the code. */
static int write_name(const struct printing *p, const struct compared *row)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	if (compared__text(row, text))
		return -ENOMEM;
	if (!p->markdown) {
		fwrite(text->bytes, 1, text->length, p->out);
		return 0;
	}
	putc('`', p->out);
	for (size_t i = 0; i < text->length; i++)
		putc(text->bytes[i] == '|' ? '/' : text->bytes[i] == '`' ? '\'' : text->bytes[i], p->out);
	putc('`', p->out);
	return 0;
}

static int print_both(const struct printing *p, const struct compared *row)
{
	char base[COMPARE_VALUE_BYTES], now[COMPARE_VALUE_BYTES], change[COMPARE_CHANGE_BYTES], q[16];
	const char *line = p->markdown ? "| %.1f %% | %.1f %% | %s | %s | %s | %s | "
				       : "%5.1f %%  %5.1f %%  %11s  %11s  %-26s  %7s  ";

	compare__value(p->c, row->base.value, base);
	compare__value(p->c, row->now.value, now);
	compare__change(&row->change, change);
	print_q(row, q);
	if (p->c->unit == COMPARE_SHARE)
		fprintf(p->out, p->markdown ? "| %.1f %% | %.1f %% | %s | %s | " : "%5.1f %%  %5.1f %%  %-26s  %7s  ",
			100 * row->share_base, 100 * row->share_now, change, q);
	else
		fprintf(p->out, line, 100 * row->share_base, 100 * row->share_now, base, now, change, q);
	return write_name(p, row);
}

static int print_one(const struct printing *p, const struct compared *row)
{
	bool in_base = row->in_base;
	char value[COMPARE_VALUE_BYTES], q[16];

	compare__value(p->c, in_base ? row->base.value : row->now.value, value);
	print_q(row, q);
	if (p->c->unit == COMPARE_SHARE)
		fprintf(p->out, p->markdown ? "| %.1f %% | %s | %s | " : "%5.1f %%  %7s  %-9s  ",
			100 * (in_base ? row->share_base : row->share_now), q, row_kind__name(row->kind));
	else
		fprintf(p->out, p->markdown ? "| %.1f %% | %s | %s | %s | " : "%5.1f %%  %11s  %7s  %-9s  ",
			100 * (in_base ? row->share_base : row->share_now), value, q, row_kind__name(row->kind));
	return write_name(p, row);
}

static void print_head(const struct printing *p, const char *title, enum presence presence)
{
	bool share = p->c->unit == COMPARE_SHARE;
	const char *unit = compare_unit__words(p->c->unit);

	fprintf(p->out, p->markdown ? "\n**%s**\n\n" : "\n%s\n", title);
	if (presence == IN_BOTH && p->markdown)
		fprintf(p->out,
			share ? "| base | new | change | q | |\n|--:|--:|:--|--:|:--|\n"
			      : "| base | new | base %s | new %s | change | q | |\n|--:|--:|--:|--:|:--|--:|:--|\n",
			unit, unit);
	else if (presence == IN_BOTH)
		fprintf(p->out,
			share ? "   base      new  change [95 %% interval]            q\n"
			      : "   base      new  base%7s   new%8s  change [95 %% interval]            q\n",
			unit, unit);
	else if (p->markdown)
		fprintf(p->out,
			share ? "| share | q | | |\n|--:|--:|:--|:--|\n"
			      : "| share | %s | q | | |\n|--:|--:|--:|:--|:--|\n",
			unit);
	else
		fprintf(p->out, share ? "  share        q\n" : "  share  %11s        q\n", unit);
}

/* Rows that differ, then with `all` the others; the largest first. kind: ROW_KINDS for all of them. */
static int print_table(const struct printing *p, const char *title, enum row_kind kind, enum presence presence)
{
	size_t printed = 0, left = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < p->c->n; i++) {
		const struct compared *row = &p->c->rows[i];

		if ((kind != ROW_KINDS && row->kind != kind) || presence_of(row) != presence ||
		    !(row->significant || p->all))
			continue;
		if (printed == p->limit) {
			left++;
			continue;
		}
		if (!printed++)
			print_head(p, title, presence);
		ret = presence == IN_BOTH ? print_both(p, row) : print_one(p, row);
		fputs(p->markdown ? " |\n" : "\n", p->out);
	}
	if (left)
		fprintf(p->out, "%sand %zu more (--top)\n", p->markdown ? "\n" : "", left);
	return ret;
}

static int print_tables(const struct printing *p)
{
	int ret = 0;

	for (enum row_kind kind = 0; !ret && kind < ROW_KINDS; kind++)
		ret = print_table(p, row_kind__title(kind), kind, IN_BOTH);
	ret = ret ?: print_table(p, "New: the base has none of it", ROW_KINDS, ONLY_NOW);
	return ret ?: print_table(p, "Gone: the new side has none of it", ROW_KINDS, ONLY_BASE);
}

/* CPU time beside the wall time of a step. */
static void print_amount(const struct printing *p)
{
	const struct comparison *c = p->c;
	char base[COMPARE_VALUE_BYTES], now[COMPARE_VALUE_BYTES], change[COMPARE_CHANGE_BYTES];

	if (!c->amount.tested)
		return;
	compare__value(c, c->amount.base.value, base);
	compare__value(c, c->amount.now.value, now);
	compare__change(&c->amount.change, change);
	fprintf(p->out, "  %s %s: %s → %s, %s\n",
		c->base->measure == SIDE_CPU    ? "CPU time"
		: c->base->measure == SIDE_WALL ? "threads' wall time"
						: c->base->value,
		compare_unit__words(c->unit), base, now, change);
}

static int print(const struct printing *p)
{
	const struct comparison *c = p->c;
	int ret;

	if (p->markdown)
		fputs("**", p->out);
	ret = compare__verdict(c, p->out);
	fputs(p->markdown ? "**\n\n```\n" : "\n", p->out);
	if (!ret && c->leading) {
		fputs("  ", p->out);
		ret = compare__leading(c, p->out);
		fputc('\n', p->out);
	}
	print_amount(p);
	fputs("base: ", p->out);
	compare__side(c->base, p->out);
	fputs("\nnew:  ", p->out);
	compare__side(c->now, p->out);
	fputc('\n', p->out);
	if (compare__load(c, p->out))
		fputc('\n', p->out);
	compare__caveat(c, p->out);
	fputs(p->markdown ? "\n```\n" : "\n", p->out);
	if (c->unit == COMPARE_SHARE && !(c->base->steps > 0 && c->now->steps > 0))
		fprintf(p->out,
			"%sRows are shares of the whole: steps are not known on both sides, so neither is said to be "
			"faster (record --timeline --step FUNCTION; or --per second, --per run)\n",
			p->markdown ? "\n" : "");
	if (c->now->without_lines)
		fprintf(p->out,
			"%sSource lines and inlined functions of %zu native function%s are not compared: one side "
			"lacks "
			"them, as there was no time to read their debug information\n",
			p->markdown ? "\n" : "", c->now->without_lines, c->now->without_lines == 1 ? "" : "s");
	ret = ret ?: print_tables(p);
	if (!p->all && c->n > c->n_significant)
		fprintf(p->out, "\n%zu rows without a difference are left out (-v shows them)\n",
			c->n - c->n_significant);
	return ret;
}

int compare__print(const struct comparison *comparison, size_t limit, bool all, FILE *out)
{
	return print(&(struct printing){ comparison, out, limit, all, false });
}

int compare__print_markdown(const struct comparison *comparison, size_t limit, bool all, FILE *out)
{
	return print(&(struct printing){ comparison, out, limit, all, true });
}
