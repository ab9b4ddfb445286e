// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads profiles into a side: to which rows each sample belongs, and how much of it to which block. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/side_internal.h"
#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "profile/category_verdict.h"
#include "stakeout/array.h"
#include "stakeout/cuda_names.h"
#include "stakeout/short_path.h"

#define NONE UINT32_MAX

/* One profile on its way into the side. The rows are those of the side, found when first met. */
struct filling {
	struct side *side;
	const struct profile *profile;
	const struct summary_request *request;
	struct scope scope;
	struct time_blocks blocks;
	struct names functions;
	struct category_lines categories;
	bool **phases;              /* by phase, by line of the profile */
	uint32_t *self, *inclusive; /* by name of a function: the row */
	uint32_t *lines;            /* by line of the profile: the row of the line */
	const char **apis;          /* by line of the profile: the CUDA API that it is; NULL: none */
	size_t *seen;               /* by name: the last sample that had it, plus 1 */
	uint32_t *hits;             /* rows of the current sample */
	size_t n_hits, hits_capacity;
	struct text text;
};

static void filling__clear(struct filling *f)
{
	for (size_t i = 0; f->phases && i < phases__count(f->request->phases); i++)
		free(f->phases[i]);
	free(f->phases);
	category_lines__clear(&f->categories);
	names__clear(&f->functions);
	free(f->self);
	free(f->inclusive);
	free(f->lines);
	free(f->apis);
	free(f->seen);
	free(f->hits);
	text__clear(&f->text);
}
CLEANUP_DEFINE(struct filling *, filling, filling__clear)

static uint32_t *new_rows(size_t n)
{
	uint32_t *rows = malloc((n + 1) * sizeof(*rows));

	if (rows)
		memset(rows, 0xff, (n + 1) * sizeof(*rows));
	return rows;
}

/* As the runtime's and the driver's libraries call them: without a version, and without _ptsz. */
static void find_apis(struct filling *f)
{
	for (size_t i = 0; i < f->profile->n_lines; i++) {
		const struct profile_line *line = &f->profile->lines[i];
		struct cuda_name name;

		if (!line->python && !line->kernel && cuda_names__find(line->function, strlen(line->function), &name) &&
		    name.type == CUDA_NAME_API)
			f->apis[i] = cuda_names__base(name);
	}
}

static int filling__init(struct filling *f)
{
	size_t phases = phases__count(f->request->phases), names;
	int ret;

	scope__init(f->profile, &f->request->render, &f->request->style, &f->scope);
	ret = names__functions(&f->scope, f->request->render.python_only, &f->functions);
	ret = ret ?: category_lines__match(f->request->rules, f->profile, NULL, &f->categories);
	if (ret)
		return ret;
	names = f->functions.texts.n_keys;
	f->self = new_rows(names);
	f->inclusive = new_rows(names);
	f->lines = new_rows(f->profile->n_lines);
	f->seen = calloc(names + 1, sizeof(*f->seen));
	f->apis = calloc(f->profile->n_lines + 1, sizeof(*f->apis));
	f->phases = calloc(phases + 1, sizeof(*f->phases));
	if (!f->self || !f->inclusive || !f->lines || !f->seen || !f->apis || !f->phases)
		return -ENOMEM;
	find_apis(f);
	for (size_t i = 0; i < phases; i++) {
		f->phases[i] = phases__lines(f->request->phases, i, f->profile);
		if (!f->phases[i])
			return -ENOMEM;
	}
	return 0;
}

static int hit(struct filling *f, uint32_t row)
{
	if (ARRAY_RESERVE(f->hits, f->hits_capacity, f->n_hits + 1))
		return -ENOMEM;
	f->hits[f->n_hits++] = row;
	return 0;
}

static int hit_named(struct filling *f, enum row_kind kind, const char *name)
{
	uint32_t row;
	int ret = side__row(f->side, kind, name, strlen(name), 0, &row);

	return ret ?: hit(f, row);
}

/* Addresses of code without a symbol differ from build to build: it is known by its file alone. */
static int write_function(struct filling *f, uint32_t name)
{
	const struct profile_line *line = &f->profile->lines[f->functions.example[name]];
	struct profile_line nameless = *line;

	f->text.length = 0;
	if (!frame_text__is_unnamed(line) || !*line->mapping)
		return text__append(&f->text, intern__key(&f->functions.texts, name),
				    intern__length(&f->functions.texts, name));
	nameless.function = "";
	return frame_text__function(&nameless, &f->text);
}

static int hit_function(struct filling *f, enum row_kind kind, uint32_t *rows, uint32_t name)
{
	int ret;

	if (rows[name] != NONE)
		return hit(f, rows[name]);
	ret = write_function(f, name);
	ret = ret ?: side__row(f->side, kind, f->text.bytes, f->text.length, 0, &rows[name]);
	return ret ?: hit(f, rows[name]);
}

/* The names of several frames may be one row, so a row counts a sample once. */
static int hit_inclusive(struct filling *f, uint32_t name)
{
	size_t before = f->n_hits;
	int ret = hit_function(f, ROW_INCLUSIVE, f->inclusive, name);

	for (size_t i = 0; !ret && i < before; i++)
		if (f->hits[i] == f->hits[before])
			f->n_hits = before;
	return ret;
}

static int hit_functions(struct filling *f, const struct profile_sample *sample, size_t number)
{
	uint32_t leaf = names__leaf(&f->functions, sample);
	int ret = leaf == NAMES_NONE ? hit_named(f, ROW_FUNCTION, f->functions.none)
				     : hit_function(f, ROW_FUNCTION, f->self, leaf);

	for (size_t i = 0; !ret && i < sample->n_lines; i++) {
		uint32_t name = f->functions.of_line[sample->lines[i]];

		if (name == NAMES_NONE || (name == f->functions.folded && leaf != name) || f->seen[name] == number + 1)
			continue;
		f->seen[name] = number + 1;
		ret = hit_inclusive(f, name);
	}
	return ret;
}

static int hit_line(struct filling *f, const struct profile_sample *sample)
{
	size_t number = own_line(f->profile, sample);
	const struct profile_line *line;
	int ret;

	if (number == SIZE_MAX)
		return 0;
	line = &f->profile->lines[number];
	if (!*line->filename || line->line <= 0)
		return 0;
	if (f->lines[number] != NONE)
		return hit(f, f->lines[number]);
	f->text.length = 0;
	ret = frame_text__between("", line->function, " (", &f->text);
	ret = ret ?: frame_text__between("", short_path__python(line->filename), ")", &f->text);
	ret = ret ?: side__row(f->side, ROW_LINE, f->text.bytes, f->text.length, line->line, &f->lines[number]);
	return ret ?: hit(f, f->lines[number]);
}

static int hit_phases(struct filling *f, const struct profile_sample *sample)
{
	int ret = 0;

	for (size_t phase = 0; !ret && phase < phases__count(f->request->phases); phase++) {
		size_t i = 0;

		while (i < sample->n_lines && !f->phases[phase][sample->lines[i]])
			i++;
		if (i < sample->n_lines)
			ret = hit_named(f, ROW_PHASE, phases__name(f->request->phases, phase));
	}
	return ret;
}

/* The one that the program calls: a call of the runtime makes the driver's. */
static int hit_api(struct filling *f, const struct profile_sample *sample)
{
	for (size_t i = sample->n_lines; i-- > 0;)
		if (f->apis[sample->lines[i]])
			return hit_named(f, ROW_CUDA, f->apis[sample->lines[i]]);
	return 0;
}

static int find_rows(struct filling *f, const struct profile_sample *sample, size_t number)
{
	struct category_verdict verdict = category_lines__judge(&f->categories, sample);
	int ret;

	f->n_hits = 0;
	ret = hit_functions(f, sample, number);
	ret = ret ?: hit_named(f, ROW_CATEGORY, category_verdict__name(f->request->rules, verdict.category));
	ret = ret ?: hit_line(f, sample);
	ret = ret ?: hit_api(f, sample);
	return ret ?: hit_phases(f, sample);
}

/* The part of a sample that is in one block. */
struct part {
	struct filling *f;
	double observation; /* the amount that one observation is worth */
};

static void count(struct side_row *row, double amount, double observation)
{
	row->squares += amount * observation;
	row->observations += amount / observation;
}

static void add_part(void *context, size_t block, double amount)
{
	const struct part *part = context;
	struct side *side = part->f->side;

	side->blocks[block].amount += amount;
	count(&side->all, amount, part->observation);
	for (size_t i = 0; i < part->f->n_hits; i++) {
		uint32_t row = part->f->hits[i];

		side__cells(side, row)[block] += amount;
		count(&side->rows[row], amount, part->observation);
	}
}

static int add_sample(struct filling *f, size_t number)
{
	const struct profile_sample *sample = &f->profile->samples[number];
	struct share share;
	double amount, each = f->profile->wall && f->profile->observation > 0 ? f->profile->observation : 1;
	struct part part = { .f = f };
	int ret;

	if (!scope__share(&f->scope, sample, &share) || !share.samples)
		return 0;
	amount = f->side->measure == SIDE_COUNT ? (double)share.samples : share.ns;
	if (!(amount > 0))
		return 0;
	ret = find_rows(f, sample, number);
	if (ret)
		return ret;
	if (sample->state && !strcmp(sample->state, "runnable"))
		f->side->runnable += amount;
	/* A part of an observation is one at least: a short wait was seen once. */
	part.observation = amount / ((double)share.samples > each ? (double)share.samples / each : 1);
	time_blocks__divide(&f->blocks, sample, amount, add_part, &part);
	return 0;
}

static int fill_one(struct side *side, const struct side_input *input, const struct time_blocks *blocks,
		    const struct summary_request *request)
{
	_cleanup_(filling) struct filling *f =
		&(struct filling){ .side = side, .profile = input->profile, .request = request, .blocks = *blocks };
	int ret = filling__init(f);

	for (size_t i = 0; !ret && i < f->profile->n_samples; i++)
		ret = add_sample(f, i);
	return ret;
}

/* Who has most, by the names of threads; and how many processes there are. */
static int find_program(struct side *side, const struct side_input *inputs, size_t n)
{
	struct intern names = { 0 }, pids = { 0 };
	_cleanup_free_ double *sums = NULL;
	size_t capacity = 0, best = 0;
	uint32_t number;
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < n; i++)
		for (size_t j = 0; ret >= 0 && j < inputs[i].profile->n_samples; j++) {
			const struct profile_sample *s = &inputs[i].profile->samples[j];

			ret = intern__add(&pids, &s->pid, sizeof(s->pid), &number);
			ret = ret < 0 ? ret : intern__add(&names, s->comm, strlen(s->comm) + 1, &number);
			if (ret < 0 || ARRAY_RESERVE(sums, capacity, names.n_keys))
				ret = -ENOMEM;
			else
				sums[number] = (ret ? 0 : sums[number]) + (double)s->count;
		}
	for (size_t i = 0; i < names.n_keys && ret >= 0; i++)
		best = sums[i] > sums[best] ? i : best;
	side->processes = pids.n_keys;
	side->program = ret >= 0 ? strdup(names.n_keys ? intern__key(&names, best) : "") : NULL;
	intern__clear(&names);
	intern__clear(&pids);
	return side->program ? 0 : -ENOMEM;
}

int side__fill(struct side *side, const struct side_input *inputs, size_t n, const struct summary_request *request)
{
	_cleanup_free_ struct time_blocks *blocks = calloc(n, sizeof(*blocks));
	int ret = blocks ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		ret = side__add_blocks(side, &inputs[i], &blocks[i]);
	if (!ret)
		side->in_time = side__has_blocks(side);
	for (size_t i = 0; !ret && i < n; i++)
		ret = fill_one(side, &inputs[i], &blocks[i], request);
	return ret ?: find_program(side, inputs, n);
}
