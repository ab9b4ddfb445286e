// SPDX-License-Identifier: GPL-2.0-or-later
/* A comparison's sentences: the verdict, what is named first, what the sides are. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "client/diff/compare.h"
#include "client/render/frame_text.h"
#include "client/render/render.h"

#define WORTH_LOAD 0.05 /* of the time: as much more of waiting for a CPU is said */

/* "function (file.py" + ":12" + ")" */
static int append_line(const char *function, int64_t line, struct text *out)
{
	char number[32];
	size_t length = strlen(function);
	bool closed = length && function[length - 1] == ')';

	snprintf(number, sizeof(number), ":%" PRId64 "%s", line, closed ? ")" : "");
	return text__append(out, function, length - closed) ?: text__append(out, number, strlen(number));
}

int compared__text(const struct compared *row, struct text *out)
{
	char moved[48] = "";
	int64_t line = row->line ?: row->line_now;
	int ret = line ? append_line(row->text, line, out) : text__append(out, row->text, strlen(row->text));

	if (row->line && row->line_now && row->line != row->line_now)
		snprintf(moved, sizeof(moved), ", now :%" PRId64, row->line_now);
	ret = ret ?: text__append(out, moved, strlen(moved));
	if (!ret && row->text_now && strcmp(row->text, row->text_now))
		ret = text__append(out, ", now ", 6) ?: text__append(out, row->text_now, strlen(row->text_now));
	return ret;
}

static void duration(double ns, char out[COMPARE_VALUE_BYTES])
{
	static const struct {
		double ns;
		const char *unit;
	} scales[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "µs" }, { 1, "ns" } };
	size_t i = 0;

	while (i + 1 < sizeof(scales) / sizeof(scales[0]) && ns < scales[i].ns)
		i++;
	ns /= scales[i].ns;
	snprintf(out, COMPARE_VALUE_BYTES, "%.*f %s", ns >= 100 ? 0 : ns >= 10 ? 1 : 2, ns, scales[i].unit);
}

void compare__value(const struct comparison *c, double value, char out[COMPARE_VALUE_BYTES])
{
	if (c->unit == COMPARE_SECOND)
		value *= 1e9;
	if (c->unit == COMPARE_SHARE)
		snprintf(out, COMPARE_VALUE_BYTES, "%.1f %%", 100 * value);
	else if (c->base->measure == SIDE_COUNT)
		snprintf(out, COMPARE_VALUE_BYTES, "%.3g %s", value, c->base->value);
	else
		duration(value, out);
}

void compare__change(const struct change *change, char out[COMPARE_CHANGE_BYTES])
{
	if (isinf(change->percent))
		snprintf(out, COMPARE_CHANGE_BYTES, "new");
	else if (isinf(change->high))
		snprintf(out, COMPARE_CHANGE_BYTES, "%+.1f %% [%.1f, unbounded]", change->percent, change->low);
	else
		snprintf(out, COMPARE_CHANGE_BYTES, "%+.1f %% [%.1f, %.1f]", change->percent, change->low,
			 change->high);
}

static const char *measure_words(const struct side *side)
{
	return side->measure == SIDE_CPU ? "CPU time" : side->measure == SIDE_WALL ? "threads' wall time" : side->value;
}

/* What the total counts. */
static const char *total_words(const struct comparison *c)
{
	return c->unit == COMPARE_SECOND ? measure_words(c->base) : "time";
}

static void smallest(const struct change *change, FILE *out)
{
	if (isinf(change->smallest))
		fputs("; these data could not have shown any change", out);
	else
		fprintf(out, "; the smallest change that these data could have shown: %.1f %%", change->smallest);
}

/* Of shares there is no whole that could be faster. */
static int shares_verdict(const struct comparison *c, FILE *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	const char *verb = c->base->measure == SIDE_COUNT ? "fall" : "goes";

	if (c->verdict == VERDICT_NONE)
		fprintf(out, "no difference found in where the %s %s", measure_words(c->base), verb);
	else
		fprintf(out, "different: the %s %s elsewhere", measure_words(c->base), verb);
	if (!c->example)
		return 0;
	if (compared__text(c->example, text))
		return -ENOMEM;
	fprintf(out, "; the smallest change that these data could have shown: ");
	if (isinf(c->example->change.smallest))
		fprintf(out, "none");
	else
		fprintf(out, "%.1f %%", c->example->change.smallest);
	fprintf(out, " of a function that takes %.1f %%, as %.*s", 100 * c->example->share_base, (int)text->length,
		text->bytes);
	return 0;
}

int compare__verdict(const struct comparison *c, FILE *out)
{
	static const char *const words[] = {
		[VERDICT_NONE] = "no difference found",
		[VERDICT_FASTER] = "faster",
		[VERDICT_SLOWER] = "slower",
	};
	const char *word = c->verdict == VERDICT_DIFFERENT ? "" : words[c->verdict];
	char change[COMPARE_CHANGE_BYTES], base[COMPARE_VALUE_BYTES], now[COMPARE_VALUE_BYTES];

	if (c->unit == COMPARE_SHARE)
		return shares_verdict(c, out);
	if (c->unit == COMPARE_SECOND && c->verdict != VERDICT_NONE)
		word = c->verdict == VERDICT_SLOWER ? "more" : "less";
	compare__value(c, c->total.base.value, base);
	compare__value(c, c->total.now.value, now);
	compare__change(&c->total.change, change);
	if (!c->total.tested) {
		fprintf(out,
			"not known whether faster or slower: %+.1f %% %s %s, %s → %s, of which no variation is known",
			c->total.change.percent, total_words(c), compare_unit__words(c->unit), base, now);
		return 0;
	}
	fprintf(out, "%s: %s %s %s, %s → %s", word, change, total_words(c), compare_unit__words(c->unit), base, now);
	smallest(&c->total.change, out);
	return 0;
}

static int name_row(const struct comparison *c, const struct compared *row, FILE *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	char base[COMPARE_VALUE_BYTES], now[COMPARE_VALUE_BYTES], change[COMPARE_CHANGE_BYTES];

	if (compared__text(row, text))
		return -ENOMEM;
	compare__value(c, row->base.value, base);
	compare__value(c, row->now.value, now);
	compare__change(&row->change, change);
	fprintf(out, "%.*s", (int)text->length, text->bytes);
	if (row->kind == ROW_CATEGORY)
		fputs(" (category)", out);
	if (row->in_base && row->in_now)
		fprintf(out, " %s → %s, %s", base, now, change);
	else
		fprintf(out, ", %s: %s", row->in_base ? "gone" : "new", row->in_base ? base : now);
	return 0;
}

int compare__leading(const struct comparison *c, FILE *out)
{
	int ret;

	if (!c->leading)
		return 0;
	fprintf(out, "%zu of %zu rows differ, most of all ", c->n_significant, c->n_tested);
	ret = name_row(c, c->leading, out);
	if (!ret && c->category && c->category != c->leading) {
		fputs("; ", out);
		ret = name_row(c, c->category, out);
	}
	return ret;
}

void compare__side(const struct side *side, FILE *out)
{
	if (side->measure == SIDE_COUNT) {
		fprintf(out, "%.0f %s", side->all.amount, side->value);
	} else {
		fprintf(out, "%.0f %s, %.2f %s s", side->all.observations,
			side->measure == SIDE_WALL ? "looks" : "samples", side->all.amount / 1e9,
			side->measure == SIDE_WALL ? "wall" : "CPU");
		if (side->measure == SIDE_CPU && side->rate_hz > 0)
			fprintf(out, " at %.0f Hz", side->rate_hz);
	}
	if (side->measure == SIDE_WALL && side->runnable > 0)
		fprintf(out, ", %.0f %% of it waiting for a CPU", 100 * side->runnable / side->all.amount);
	if (side->wall_ns > 0)
		fprintf(out, ", in %.1f s", side->wall_ns / 1e9);
	if (side->n_runs > 1)
		fprintf(out, " of %u runs", side->n_runs);
	if (side->steps > 0)
		fprintf(out, ", %.0f steps", side->steps);
	if (side->processes > 1)
		fprintf(out, ", %zu processes", side->processes);
	if (*side->program)
		fprintf(out, ", %s", side->program);
}

bool compare__load(const struct comparison *c, FILE *out)
{
	double base = c->base->runnable / c->base->all.amount, now = c->now->runnable / c->now->all.amount;

	if (c->base->measure != SIDE_WALL || base < 0 || now < 0 || fabs(now - base) < WORTH_LOAD)
		return false;
	fprintf(out,
		"the machine was busier with other work in the %s: %.0f %% of the time threads waited for a CPU, "
		"%.0f %% in the %s; compare CPU time (record without --wall), or in turn (A B A B) when it is quiet",
		now > base ? "new recording" : "base", 100 * fmax(now, base), 100 * fmin(now, base),
		now > base ? "base" : "new one");
	return true;
}

static void count_blocks(const struct side *side, enum compare_blocks blocks, FILE *out)
{
	if (blocks == COMPARE_RUNS || blocks == COMPARE_BORROWED)
		fprintf(out, "%u run%s", side->n_runs, plural(side->n_runs));
	else if (blocks == COMPARE_TIME)
		fprintf(out, "%zu blocks of %.1f s", side->n_blocks, side->wall_ns / 1e9 / (double)side->n_blocks);
	else
		fprintf(out, "single samples");
}

void compare__caveat(const struct comparison *c, FILE *out)
{
	bool counts = c->blocks[0] == COMPARE_COUNTS || c->blocks[1] == COMPARE_COUNTS,
	     borrowed = c->blocks[0] == COMPARE_BORROWED || c->blocks[1] == COMPARE_BORROWED;

	fputs("known by: base ", out);
	count_blocks(c->base, c->blocks[0], out);
	fputs(", new ", out);
	count_blocks(c->now, c->blocks[1], out);
	if (counts)
		fputs(". Samples of one second resemble each other, so intervals may be too narrow: record with "
		      "--timeline, or compare several files a side (A1 A2 A3 -- B1 B2 B3)",
		      out);
	else if (borrowed)
		fputs(". The side of fewer runs is taken to vary from run to run as the other does", out);
	else if (c->blocks[0] == COMPARE_TIME)
		fputs(". What differs from run to run is not in it: three files a side or more measure that", out);
}
