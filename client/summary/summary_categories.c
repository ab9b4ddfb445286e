// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_categories.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "profile/category_verdict.h"
#include "stakeout/array.h"

/* Leftovers as a means, beside mechanisms. */
static const char *const leaf_names[] = {
	[CATEGORY_LEFT_PYTHON] = "Python code",
	[CATEGORY_LEFT_NATIVE] = "native code",
	[CATEGORY_LEFT_KERNEL] = "kernel code",
	[CATEGORY_LEFT_NO_STACK] = "no stack",
};

/* Samples by (category, name). */
struct pairs {
	struct intern ids;
	struct share *shares;
	size_t capacity;
};

/* In the making: categories are numbered as in the rules, leftovers follow. */
struct sorter {
	const struct scope *scope;
	const struct category_rules *rules;
	size_t n; /* categories and leftovers */
	struct category_lines lines;
	struct share *shares; /* by category */
	struct share *means;  /* by category * n + means */
	struct pairs functions, callers;
};

static void pairs__clear(struct pairs *pairs)
{
	intern__clear(&pairs->ids);
	free(pairs->shares);
}

static void sorter__clear(struct sorter *sorter)
{
	category_lines__clear(&sorter->lines);
	free(sorter->shares);
	free(sorter->means);
	pairs__clear(&sorter->functions);
	pairs__clear(&sorter->callers);
}
CLEANUP_DEFINE(struct sorter *, sorter, sorter__clear)

static int pairs__add(struct pairs *pairs, size_t category, uint32_t name, const struct share *share)
{
	const uint32_t id[2] = { (uint32_t)category, name };
	uint32_t number;
	int ret;

	if (ARRAY_RESERVE(pairs->shares, pairs->capacity, pairs->ids.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&pairs->ids, id, sizeof(id), &number);
	if (ret < 0)
		return ret;
	if (ret)
		pairs->shares[number] = (struct share){ 0 };
	share__add(&pairs->shares[number], share);
	return 0;
}

static const struct profile_line *line_at(const struct sorter *sorter, const struct profile_sample *sample,
					  size_t frame)
{
	return &sorter->scope->profile->lines[sample->lines[frame]];
}

static uint32_t function_of(const struct sorter *sorter, const struct profile_sample *sample,
			    const struct category_verdict *verdict, const struct names *functions)
{
	for (size_t i = 0; i <= verdict->frame && verdict->frame < sample->n_lines; i++)
		if (line_at(sorter, sample, i)->python)
			return functions->of_line[sample->lines[i]];
	return names__leaf(functions, sample);
}

/* Outside the outermost frame of the activity that holds together with the innermost one. */
static size_t outside(const struct sorter *sorter, const struct profile_sample *sample,
		      const struct category_verdict *verdict)
{
	size_t last = verdict->frame;

	if (last == sample->n_lines)
		return 0;
	for (size_t i = last + 1; i < sample->n_lines; i++) {
		uint32_t rank = category_lines__ranks(&sorter->lines, sample, i)->activity;

		if (rank == CATEGORY_NO_RANK)
			continue;
		if (category_rules__of_rank(sorter->rules, rank) != verdict->category)
			break;
		last = i;
	}
	return last + 1;
}

static uint32_t caller_of(const struct sorter *sorter, const struct profile_sample *sample,
			  const struct category_verdict *verdict, const struct names *lines)
{
	size_t begin = outside(sorter, sample, verdict);

	/* The user's line says more than that of a library between it and the activity. */
	for (size_t i = begin; i < sample->n_lines && verdict->frame < sample->n_lines; i++)
		if (is_own_python(line_at(sorter, sample, i)) && lines->of_line[sample->lines[i]] != NAMES_NONE)
			return lines->of_line[sample->lines[i]];
	for (size_t i = begin; i < sample->n_lines; i++)
		if (lines->of_line[sample->lines[i]] != NAMES_NONE)
			return frame_text__is_unnamed(line_at(sorter, sample, i)) ? NAMES_NONE
										  : lines->of_line[sample->lines[i]];
	return NAMES_NONE;
}

static int add_sample(struct sorter *sorter, const struct profile_sample *sample, const struct share *share,
		      const struct names *functions, const struct names *lines)
{
	struct category_verdict verdict = category_lines__judge(&sorter->lines, sample);
	uint32_t caller;
	int ret;

	share__add(&sorter->shares[verdict.category], share);
	share__add(&sorter->means[verdict.category * sorter->n + verdict.means], share);
	ret = pairs__add(&sorter->functions, verdict.category, function_of(sorter, sample, &verdict, functions), share);
	caller = caller_of(sorter, sample, &verdict, lines);
	if (!ret && caller != NAMES_NONE)
		ret = pairs__add(&sorter->callers, verdict.category, caller, share);
	return ret;
}

static int add_samples(struct sorter *sorter, const struct names *functions, const struct names *lines)
{
	const struct profile *profile = sorter->scope->profile;
	struct share share;
	int ret;

	sorter->n = category_verdict__count(sorter->rules);
	sorter->shares = calloc(sorter->n, sizeof(*sorter->shares));
	sorter->means = calloc(sorter->n * sorter->n, sizeof(*sorter->means));
	if (!sorter->shares || !sorter->means)
		return -ENOMEM;
	ret = category_lines__match(sorter->rules, profile, NULL, &sorter->lines);
	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		if (scope__share(sorter->scope, &profile->samples[i], &share))
			ret = add_sample(sorter, &profile->samples[i], &share, functions, lines);
	return ret;
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	size_t n = x->length < y->length ? x->length : y->length;
	int ret;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (x->share.samples != y->share.samples)
		return x->share.samples < y->share.samples ? 1 : -1;
	ret = n ? memcmp(x->text, y->text, n) : 0;
	return ret ? ret : (x->length > y->length) - (x->length < y->length);
}

static void sort_parts(struct parts *parts)
{
	if (parts->n)
		qsort(parts->list, parts->n, sizeof(*parts->list), compare_parts);
}

static struct part part_of(const char *text, const struct share *share)
{
	return (struct part){ .text = text, .length = strlen(text), .share = *share };
}

/* Hands the pairs out to their categories' rows, in one block. functions: into .functions; otherwise .callers. */
static int hand_out(const struct pairs *pairs, const struct names *names, const size_t *row_of,
		    struct category_row *rows, bool functions, struct part **block)
{
	size_t n = pairs->ids.n_keys;
	struct part *all = calloc(n + 1, sizeof(*all));

	*block = all;
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const uint32_t *id = intern__key(&pairs->ids, i);

		all[i] = part_of(names->none, &pairs->shares[i]);
		all[i].row = row_of[id[0]];
		if (id[1] == NAMES_NONE)
			continue;
		all[i].text = intern__key(&names->texts, id[1]);
		all[i].length = intern__length(&names->texts, id[1]);
	}
	qsort(all, n, sizeof(*all), compare_parts);
	for (size_t i = 0; i < n; i++) {
		struct category_row *row = &rows[all[i].row];
		struct parts *parts = functions ? &row->functions : &row->callers;

		if (!parts->n++)
			parts->list = &all[i];
	}
	return 0;
}

static const char *name_of(const struct sorter *sorter, size_t category, bool means)
{
	size_t n = category_rules__count(sorter->rules);

	return means && category >= n ? leaf_names[category - n] : category_verdict__name(sorter->rules, category);
}

static const char *kind_of(const struct sorter *sorter, size_t category)
{
	if (category >= category_rules__count(sorter->rules))
		return "leftover";
	return category_rules__kind(sorter->rules, category) == CATEGORY_ACTIVITY ? "activity" : "mechanism";
}

static int fill_row(const struct sorter *sorter, size_t category, struct category_row *row)
{
	const struct share *means = &sorter->means[category * sorter->n];

	row->name = name_of(sorter, category, false);
	row->kind = kind_of(sorter, category);
	row->share = sorter->shares[category];
	row->means.list = calloc(sorter->n, sizeof(*row->means.list));
	if (!row->means.list)
		return -ENOMEM;
	for (size_t i = 0; i < sorter->n; i++)
		if (means[i].samples)
			row->means.list[row->means.n++] = part_of(name_of(sorter, i, true), &means[i]);
	sort_parts(&row->means);
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct category_row *x = a, *y = b;

	if (x->share.samples != y->share.samples)
		return x->share.samples < y->share.samples ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int fill_means(const struct sorter *sorter, struct category_table *table)
{
	struct parts all = { calloc(sorter->n, sizeof(*all.list)), 0 };

	table->means = all.list;
	if (!all.list)
		return -ENOMEM;
	for (size_t i = 0; i < sorter->n; i++) {
		struct share sum = { 0 };

		for (size_t j = 0; j < sorter->n; j++)
			share__add(&sum, &sorter->means[j * sorter->n + i]);
		if (sum.samples)
			all.list[all.n++] = part_of(name_of(sorter, i, true), &sum);
	}
	sort_parts(&all);
	table->n_means = all.n;
	return 0;
}

static int fill_table(const struct sorter *sorter, const struct names *functions, const struct names *lines,
		      struct category_table *table)
{
	_cleanup_free_ size_t *row_of = calloc(sorter->n, sizeof(*row_of));
	int ret = 0;

	table->rows = calloc(sorter->n, sizeof(*table->rows));
	if (!row_of || !table->rows)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < sorter->n; i++) {
		if (!sorter->shares[i].samples)
			continue;
		row_of[i] = table->n;
		ret = fill_row(sorter, i, &table->rows[table->n++]);
	}
	ret = ret ?: hand_out(&sorter->functions, functions, row_of, table->rows, true, &table->functions);
	ret = ret ?: hand_out(&sorter->callers, lines, row_of, table->rows, false, &table->callers);
	if (ret < 0)
		return ret;
	qsort(table->rows, table->n, sizeof(*table->rows), compare_rows);
	return fill_means(sorter, table);
}

int summary_categories__new(const struct scope *scope, const struct category_rules *rules,
			    const struct names *functions, const struct names *lines, struct category_table **out)
{
	_cleanup_(category_table) struct category_table *table = calloc(1, sizeof(*table));
	_cleanup_(sorter) struct sorter *sorter = &(struct sorter){ .scope = scope, .rules = rules };
	int ret = table ? add_samples(sorter, functions, lines) : -ENOMEM;

	ret = ret ?: fill_table(sorter, functions, lines, table);
	if (!ret)
		*out = TAKE_PTR(table);
	return ret;
}

void summary_categories__free(struct category_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->n; i++)
		free(table->rows[i].means.list);
	free(table->functions);
	free(table->callers);
	free(table->rows);
	free(table->means);
	free(table);
}
