// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/merged.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "stakeout/short_path.h"

void merged__free(struct merged *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->profile.n_samples; i++)
		free((void *)m->profile.samples[i].lines);
	free(m->profile.samples);
	free(m->profile.lines);
	free(m);
}

/* Functions that have another name on the new side, each with a frame of the base. */
struct renamed {
	struct intern now, base;           /* names, of one row the same number in both */
	const struct profile_line **lines; /* by number; NULL: not met */
};

static void renamed__clear(struct renamed *r)
{
	intern__clear(&r->now);
	intern__clear(&r->base);
	free(r->lines);
}
CLEANUP_DEFINE(struct renamed *, renamed, renamed__clear)

/* One side on its way in. */
struct merging {
	struct merged *m;
	const struct summary_request *request;
	const char *name;
	double scale; /* from its amounts to counts */
	enum side_measure measure;
	const struct renamed *renamed; /* NULL: this is the base */
};

static double amount_of(enum side_measure measure, const struct profile_sample *sample)
{
	return measure == SIDE_COUNT ? (double)sample->count : (double)sample->value_ns;
}

static double sum_of(const struct side_input *inputs, size_t n, enum side_measure measure,
		     const struct summary_request *request)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct scope scope;
		struct share share;

		scope__init(inputs[i].profile, &request->render, &request->style, &scope);
		for (size_t j = 0; j < inputs[i].profile->n_samples; j++)
			if (scope__share(&scope, &inputs[i].profile->samples[j], &share))
				sum += amount_of(measure, &inputs[i].profile->samples[j]);
	}
	return sum;
}

/* The frame without what an edit or another place of the files changes. */
static int add_line(const struct merging *g, const struct profile_line *line, struct text *text)
{
	struct profile_line *out = &g->m->profile.lines[g->m->profile.n_lines++];
	uint32_t number;

	*out = *line;
	text->length = 0;
	if (g->renamed && frame_text__function(line, text))
		return -ENOMEM;
	if (g->renamed && intern__find(&g->renamed->now, text->bytes, text->length, &number) &&
	    g->renamed->lines[number])
		*out = *g->renamed->lines[number];
	out->line = 0;
	/* Two checkouts of one program lie in two directories. */
	out->filename = short_path(out->filename);
	out->mapping = short_path(out->mapping);
	if (frame_text__is_unnamed(out) && *out->mapping)
		out->function = "";
	return 0;
}

static int add_sample(const struct merging *g, const struct profile_sample *sample, uint32_t first_line)
{
	struct profile_sample *out = &g->m->profile.samples[g->m->profile.n_samples];
	uint32_t *lines = calloc(sample->n_lines + 1, sizeof(*lines));

	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < sample->n_lines; i++)
		lines[i] = first_line + sample->lines[i];
	*out = (struct profile_sample){ .lines = lines,
					.n_lines = sample->n_lines,
					.count = llround(amount_of(g->measure, sample) * g->scale),
					.comm = g->name,
					.thread = "",
					.rank = "",
					.local_rank = "",
					.container = "",
					.state = sample->state ?: "" };
	g->m->profile.n_samples++;
	return 0;
}

static int add_profile(const struct merging *g, const struct profile *profile)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	struct profile *out = &g->m->profile;
	uint32_t first = (uint32_t)out->n_lines;
	struct scope scope;
	struct share share;
	void *moved;
	int ret = 0;

	if (profile->n_lines > UINT32_MAX - out->n_lines)
		return -EFBIG;
	moved = reallocarray(out->lines, out->n_lines + profile->n_lines + 1, sizeof(*out->lines));
	if (!moved)
		return -ENOMEM;
	out->lines = moved;
	moved = reallocarray(out->samples, out->n_samples + profile->n_samples + 1, sizeof(*out->samples));
	if (!moved)
		return -ENOMEM;
	out->samples = moved;
	for (size_t i = 0; !ret && i < profile->n_lines; i++)
		ret = add_line(g, &profile->lines[i], text);
	scope__init(profile, &g->request->render, &g->request->style, &scope);
	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		if (scope__share(&scope, &profile->samples[i], &share))
			ret = add_sample(g, &profile->samples[i], first);
	return ret;
}

/* Names are partners one by one, so that both tables number them alike. */
static int find_renamed(const struct comparison *c, const struct side_input *base, size_t n, struct renamed *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	uint32_t number, same;

	out->lines = calloc(c->n + 1, sizeof(*out->lines));
	if (!out->lines)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++) {
		const struct compared *row = &c->rows[i];

		if (row->kind == ROW_INCLUSIVE && row->in_base && row->in_now && strcmp(row->text, row->text_now) &&
		    (intern__add(&out->now, row->text_now, strlen(row->text_now), &number) < 0 ||
		     intern__add(&out->base, row->text, strlen(row->text), &same) < 0))
			return -ENOMEM;
	}
	for (size_t i = 0; out->base.n_keys && i < n; i++)
		for (size_t j = 0; j < base[i].profile->n_lines; j++) {
			text->length = 0;
			if (frame_text__function(&base[i].profile->lines[j], text))
				return -ENOMEM;
			if (intern__find(&out->base, text->bytes, text->length, &number))
				out->lines[number] = &base[i].profile->lines[j];
		}
	return 0;
}

/* What the whole of a side is in the unit of the comparison. */
static double whole_of(const struct side *side, enum compare_unit unit)
{
	switch (unit) {
	case COMPARE_STEP:
		return side->all.amount / side->steps;
	case COMPARE_RUN:
		return side->all.amount / side->n_runs;
	case COMPARE_SECOND:
		return side->all.amount / side->wall_ns;
	default:
		return 1;
	}
}

static int add_sides(struct merged *m, const struct side_input *inputs, size_t n_base, size_t n_now,
		     const struct summary_request *request, const struct comparison *c)
{
	_cleanup_(renamed) struct renamed *renamed = &(struct renamed){ .lines = NULL };
	double base = whole_of(c->base, c->unit), now = whole_of(c->now, c->unit),
	       unit = MERGED_UNITS / (base > now ? base : now);
	struct merging g = { .m = m, .request = request, .measure = c->base->measure };
	double sums[2] = { sum_of(inputs, n_base, g.measure, request),
			   sum_of(inputs + n_base, n_now, g.measure, request) };
	int ret = find_renamed(c, inputs, n_base, renamed);

	compare__value(c, base, m->base_words);
	compare__value(c, now, m->now_words);
	m->diff = (struct render_diff){ .per = compare_unit__words(c->unit),
					.words = { m->base_words, m->now_words },
					.observation = { base * unit / c->base->all.observations,
							 now * unit / c->now->all.observations },
					.totals = { base * unit, now * unit } };
	for (size_t i = 0; !ret && i < n_base + n_now; i++) {
		bool is_base = i < n_base;

		g.name = is_base ? "base" : "new";
		g.renamed = is_base ? NULL : renamed;
		g.scale = (is_base ? base / sums[0] : now / sums[1]) * unit;
		ret = add_profile(&g, inputs[i].profile);
	}
	return ret;
}

int merged__new(const struct side_input *inputs, size_t n_base, size_t n_now, const struct summary_request *request,
		const struct comparison *comparison, struct merged **out)
{
	_cleanup_(merged) struct merged *m = calloc(1, sizeof(*m));
	int ret = m ? 0 : -ENOMEM;

	if (ret)
		return ret;
	m->profile.observation = 1;
	ret = add_sides(m, inputs, n_base, n_now, request, comparison);
	if (!ret)
		*out = TAKE_PTR(m);
	return ret;
}
