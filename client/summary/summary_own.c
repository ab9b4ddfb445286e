// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_own.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "client/summary/summary_parts.h"
#include "stakeout/array.h"

#define CLEARLY_MORE  1.1
#define PLACES        3 /* named as those to look at */
#define WORTH_PERCENT 0.05

static int write_name(const struct profile_line *line, struct text *text)
{
	text->length = 0;
	return line->python ? frame_text__folded(line, false, text) : frame_text__line(line, text);
}

struct owning {
	const struct scope *scope;
	struct rows *out;
	uint32_t *of_line; /* the row's number by line of the profile, NAMES_NONE until needed */
	size_t capacity;
	struct text text;
};

static int number_of(struct owning *o, size_t line)
{
	uint32_t number = 0;
	int ret = write_name(&o->scope->profile->lines[line], &o->text);

	ret = ret ?: ARRAY_RESERVE(o->out->list, o->capacity, o->out->n + 1);
	ret = ret ?: intern__add(&o->out->texts, o->text.bytes, o->text.length, &number);
	if (ret < 0)
		return ret;
	if (ret)
		o->out->list[o->out->n++] = (struct row){ .line = (uint32_t)line };
	o->of_line[line] = number;
	return 0;
}

static int add_sample(struct owning *o, const struct profile_sample *sample, const struct share *share)
{
	size_t line = own_line(o->scope->profile, sample);
	int ret = 0;

	if (line == SIZE_MAX) {
		share__add(&o->out->none, share);
		return 0;
	}
	if (o->of_line[line] == NAMES_NONE)
		ret = number_of(o, line);
	if (!ret)
		share__add(&o->out->list[o->of_line[line]].self, share);
	return ret;
}

int rows__of_own_lines(const struct scope *scope, struct rows *out)
{
	size_t n = scope->profile->n_lines;
	_cleanup_free_ uint32_t *of_line = malloc((n + 1) * sizeof(*of_line));
	struct owning o = { .scope = scope, .out = out, .of_line = of_line };
	struct share share;
	int ret = of_line ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		of_line[i] = NAMES_NONE;
	for (size_t i = 0; !ret && i < scope->profile->n_samples; i++)
		if (scope__share(scope, &scope->profile->samples[i], &share))
			ret = add_sample(&o, &scope->profile->samples[i], &share);
	text__clear(&o.text);
	/* The block of texts moves while it grows. */
	for (size_t i = 0; !ret && i < out->n; i++) {
		out->list[i].text = intern__key(&out->texts, i);
		out->list[i].length = intern__length(&out->texts, i);
		out->list[i].total = out->list[i].self;
	}
	if (!ret && out->n)
		rows__sort_by_total(out);
	return ret;
}

/* What the time of a line went into: its leaves, by function; gpu: what of it waited for the GPU. */
static int leaves_of(const struct row *row, const struct names *functions, const struct scope *scope,
		     struct share *leaves, struct share *gpu)
{
	const struct profile *profile = scope->profile;
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	struct share share;
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		size_t line = scope__share(scope, sample, &share) ? own_line(profile, sample) : SIZE_MAX;
		uint32_t name;

		if (line == SIZE_MAX)
			continue;
		ret = write_name(&profile->lines[line], text);
		if (ret || text->length != row->length || memcmp(text->bytes, row->text, row->length))
			continue;
		if (own_line__gpu_wait(profile, sample))
			share__add(gpu, &share);
		name = names__leaf(functions, sample);
		if (name != NAMES_NONE)
			share__add(&leaves[name], &share);
	}
	return ret;
}

static void print_place(const char *before, const char *text, size_t length, const struct share *share,
			const struct scope *scope, FILE *out)
{
	fputs(before, out);
	summary__print_short(text, length, out);
	fprintf(out, " %.1f %%", summary__percent(share, &scope->total));
}

static bool is_named(const struct row *row, const struct names *functions, size_t name)
{
	return intern__length(&functions->texts, name) == row->length &&
	       !memcmp(intern__key(&functions->texts, name), row->text, row->length);
}

/* "  look at: step (train.py:7), whose time is in dgemm (libopenblas.so) 60.0 %, step (train.py) 25.0 %" */
static int print_line_place(const struct row *row, const struct names *functions, const struct scope *scope, FILE *out)
{
	_cleanup_free_ struct share *leaves = calloc(functions->texts.n_keys + 1, sizeof(*leaves));
	struct share gpu = { 0 };
	int ret = leaves ? leaves_of(row, functions, scope, leaves, &gpu) : -ENOMEM;

	if (ret)
		return ret;
	fprintf(out, "  look at: ");
	summary__print_short(row->text, row->length, out);
	if (2 * gpu.samples > row->self.samples) {
		fprintf(out, "; %.1f %% is waiting for the GPU there: CUDA lets the thread run until it is done\n",
			summary__percent(&gpu, &scope->total));
		return 0;
	}
	for (size_t shown = 0; shown < PLACES; shown++) {
		size_t best = 0;

		for (size_t i = 1; i < functions->texts.n_keys; i++)
			if (leaves[i].samples > leaves[best].samples)
				best = i;
		if (!leaves[best].samples || (shown && summary__percent(&leaves[best], &scope->total) < WORTH_PERCENT))
			break;
		/* Without source lines the place is a function, which may be all that there is to say. */
		if (!shown && is_named(row, functions, best) && leaves[best].samples == row->self.samples)
			break;
		print_place(shown ? ", " : "; its time is in ", intern__key(&functions->texts, best),
			    intern__length(&functions->texts, best), &leaves[best], scope, out);
		leaves[best] = (struct share){ 0 };
	}
	fputc('\n', out);
	return 0;
}

/* "  look at: main (train.py:91) 78.8 %, which calls Formatter.format (logging/__init__.py) 10.9 %, …" */
static void print_category_place(const struct category_row *row, const struct scope *scope, FILE *out)
{
	const char *before = "  look at: ";

	if (row->callers.n) {
		print_place(before, row->callers.list[0].text, row->callers.list[0].length, &row->callers.list[0].share,
			    scope, out);
		before = !strcmp(row->kind, "activity") ? ", which calls " : "; the time is in ";
	}
	for (size_t i = 0; i < row->functions.n && i < PLACES; i++) {
		const struct part *part = &row->functions.list[i];

		if (i && summary__percent(&part->share, &scope->total) < WORTH_PERCENT)
			break;
		print_place(i ? ", " : before, part->text, part->length, &part->share, scope, out);
	}
	fputc('\n', out);
}

/* Whether the line says more than the category. */
static bool line_leads(const struct row *line, const struct category_row *category)
{
	double samples = line ? (double)line->self.samples : 0;

	if (!line || !strcmp(category->name, "no stack"))
		return false;
	if (!strcmp(category->kind, "activity"))
		return samples > CLEARLY_MORE * (double)category->share.samples;
	return !strcmp(category->kind, "leftover") || samples >= (double)category->share.samples / 2;
}

int summary_own__print_verdict(const struct rows *own, const struct category_table *categories,
			       const struct names *functions, const struct scope *scope, FILE *out)
{
	const struct category_row *category = categories->rows;
	const struct row *line = own->n ? &own->list[0] : NULL;
	const struct share *share;
	char interval[32];

	if (!categories->n)
		return 0;
	if (!line_leads(line, category))
		line = NULL;
	share = line ? &line->self : &category->share;
	summary__bold(scope, out);
	fprintf(out, "largest: ");
	if (line)
		summary__print_name(line->text, line->length, out);
	else
		fputs(category->name, out);
	summary__interval(scope->profile, share->samples, scope->total.samples, interval);
	fprintf(out, ", %.1f %% %s", summary__percent(share, &scope->total), interval);
	if (scope__timed(scope))
		fprintf(out, ", %.2f %s s", share->ns / 1e9, scope->profile->wall ? "wall" : "CPU");
	summary__plain(scope, out);
	fputc('\n', out);
	summary__how_sure(scope, scope->total.samples, out);
	if (line)
		return print_line_place(line, functions, scope, out);
	print_category_place(category, scope, out);
	return 0;
}

/* Most of it has lines; a library here and there says nothing of the program. */
static bool has_lines(const struct rows *own, const struct profile *profile)
{
	int64_t with = 0, all = 0;

	for (size_t i = 0; i < own->n; i++) {
		all += own->list[i].self.samples;
		if (*profile->lines[own->list[i].line].filename)
			with += own->list[i].self.samples;
	}
	return 2 * with > all;
}

void summary_own__print(const struct rows *own, const struct scope *scope, FILE *out)
{
	bool lines = has_lines(own, scope->profile);
	size_t n = 0;

	if (!own->n)
		return;
	summary__title(scope,
		       lines ? "Your own lines, each with all that it calls in others' code"
			     : "Functions outside the system's libraries, each with all that it calls in these",
		       out);
	fprintf(out, "  share  [95 %% interval]  %s function (%s)\n", summary__seconds_head(scope),
		lines ? "file:line" : "program or library; no source lines are known");
	for (; n < own->n && n < scope->style->top; n++) {
		summary__print_share(&own->list[n].self, scope, out);
		summary__print_cell(scope, SUMMARY_SHARE_COLUMNS, own->list[n].text, own->list[n].length, out);
		fputc('\n', out);
	}
	summary__print_rest(own, n,
			    lines             ? own->n - n == 1 ? "line" : "lines"
			    : own->n - n == 1 ? "function"
					      : "functions",
			    out);
}
