// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/render/selection.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define TEXT_BUDGET_BYTES ((size_t)4 << 30) /* of names read, as in folded.c */

static bool is_idle(const struct profile_sample *sample)
{
	return sample->state && !strcmp(sample->state, "idle");
}

void scope__init(const struct profile *profile, const struct render_options *options, const struct summary_style *style,
		 struct scope *out)
{
	struct share share;

	*out = (struct scope){ .profile = profile, .options = options, .style = style };
	for (size_t i = 0; i < profile->n_samples; i++) {
		if (!scope__share_any(out, &profile->samples[i], &share))
			continue;
		share__add(&out->total, &share);
		if (is_idle(&profile->samples[i]))
			share__add(&out->idle, &share);
	}
}

bool scope__share_any(const struct scope *scope, const struct profile_sample *sample, struct share *out)
{
	if (!selection__takes(scope->options, sample))
		return false;
	*out = (struct share){ sample->count, (double)sample->value_ns };
	return true;
}

bool scope__share(const struct scope *scope, const struct profile_sample *sample, struct share *out)
{
	return !is_idle(sample) && scope__share_any(scope, sample, out);
}

void names__clear(struct names *names)
{
	intern__clear(&names->texts);
	free(names->of_line);
	free(names->example);
	memset(names, 0, sizeof(*names));
}

static int add_name(struct names *names, const struct text *text, uint32_t line)
{
	uint32_t number;
	int ret;

	if (ARRAY_RESERVE(names->example, names->capacity, names->texts.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&names->texts, text->bytes, text->length, &number);
	if (ret < 0)
		return ret;
	if (ret)
		names->example[number] = line;
	names->of_line[line] = number;
	return 0;
}

typedef bool takes_fn(const struct profile_line *line);
typedef int write_fn(const struct profile_line *line, struct text *text);

/* Names of the lines that `takes` takes. */
static int name_lines(const struct profile *profile, takes_fn *takes, write_fn *write, struct names *names)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	size_t budget = TEXT_BUDGET_BYTES;
	int ret = 0;

	names->of_line = calloc(profile->n_lines + 1, sizeof(*names->of_line));
	if (!names->of_line)
		return -ENOMEM;
	for (uint32_t i = 0; !ret && i < profile->n_lines; i++) {
		names->of_line[i] = NAMES_NONE;
		if (!takes(&profile->lines[i]))
			continue;
		text->length = 0;
		ret = write(&profile->lines[i], text);
		if (!ret && text->length > budget)
			return -EFBIG;
		budget -= text->length;
		ret = ret ?: add_name(names, text, i);
	}
	return ret;
}

static bool takes_all(const struct profile_line *line)
{
	return true;
}

static bool takes_python(const struct profile_line *line)
{
	return line->python;
}

/* Where the C library begins a program and its threads: all of them run in these lines, which tells nothing. */
static bool is_start(const struct profile_line *line)
{
	return !strcmp(line->function, "start_thread") || !strncmp(line->function, "__libc_start_", 13);
}

static bool has_source(const struct profile_line *line)
{
	return *line->filename && line->line > 0 && !is_start(line);
}

/* Code without a name is not a part of the line of another library that it is called from. */
static bool takes_source(const struct profile_line *line)
{
	return has_source(line) || frame_text__is_unnamed(line);
}

static int write_line(const struct profile_line *line, struct text *text)
{
	_cleanup_free_ char *whole = NULL;

	if (line->python || frame_text__is_unnamed(line))
		return frame_text__folded(line, false, text);
	if (asprintf(&whole, "%s (%s:%" PRId64 ")", line->function, short_path(line->filename), line->line) < 0) {
		whole = NULL;
		return -ENOMEM;
	}
	return frame_text__words(whole, text);
}

#define INTERPRETER "Python interpreter"

/* "python3.11", "libpython3.11.so.1.0": its main program too, which is a few frames at the root of each stack. */
static bool is_of_interpreter(const struct profile_line *line)
{
	const char *file = short_path(line->mapping);

	if (line->python || line->kernel)
		return false;
	if (!strncmp(file, "libpython", 9))
		return true;
	return !strncmp(file, "python", 6) && strspn(file + 6, "0123456789.") == strlen(file + 6);
}

static int write_function(const struct profile_line *line, struct text *text)
{
	return is_of_interpreter(line) ? frame_text__words(INTERPRETER, text) : frame_text__function(line, text);
}

/* Whoever has the interpreter's name by chance is no part of it. */
static int find_folded(struct names *names)
{
	uint32_t number;

	if (intern__find(&names->texts, INTERPRETER, strlen(INTERPRETER), &number))
		names->folded = number;
	return 0;
}

uint32_t names__leaf(const struct names *names, const struct profile_sample *sample)
{
	uint32_t folded = NAMES_NONE;

	for (size_t i = 0; i < sample->n_lines; i++) {
		uint32_t name = names->of_line[sample->lines[i]];

		if (name != NAMES_NONE && name != names->folded)
			return name;
		if (name != NAMES_NONE)
			folded = name;
	}
	return folded;
}

int names__functions(const struct scope *scope, bool python_only, struct names *out)
{
	out->none = python_only ? PROFILE_NATIVE : "[no stack]";
	out->none_in_rows = true;
	out->folded = NAMES_NONE;
	return name_lines(scope->profile, python_only ? takes_python : takes_all,
			  scope->style->native_interpreter ? frame_text__function : write_function, out)
		       ?: find_folded(out);
}

int names__lines(const struct scope *scope, struct names *out)
{
	bool python = scope->options->python_only, sources = false;

	for (size_t i = 0; !python && i < scope->profile->n_lines; i++) {
		python = scope->profile->lines[i].python;
		sources |= has_source(&scope->profile->lines[i]);
	}
	out->none = python ? "no Python frame" : "no source line";
	out->of_sources = !python;
	out->folded = NAMES_NONE;
	return name_lines(scope->profile, python ? takes_python : sources ? takes_source : has_source, write_line, out);
}

void rows__clear(struct rows *rows)
{
	free(rows->list);
	intern__clear(&rows->texts);
	memset(rows, 0, sizeof(*rows));
}

static int compare_text(const struct row *x, const struct row *y)
{
	size_t n = x->length < y->length ? x->length : y->length;
	int ret = n ? memcmp(x->text, y->text, n) : 0;

	return ret ? ret : (x->length > y->length) - (x->length < y->length);
}

static int rows__compare_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->self.samples != y->self.samples)
		return x->self.samples < y->self.samples ? 1 : -1;
	return compare_text(x, y);
}

static int compare_total(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->total.samples != y->total.samples)
		return x->total.samples < y->total.samples ? 1 : -1;
	return rows__compare_self(a, b);
}

void rows__sort_by_total(struct rows *rows)
{
	qsort(rows->list, rows->n, sizeof(*rows->list), compare_total);
}

void rows__sort_by_self(struct rows *rows)
{
	qsort(rows->list, rows->n, sizeof(*rows->list), rows__compare_self);
}

#define SMALL_SHARE 0.05
#define MIN_ALIKE   3

/* "sh" of "sh-4711"; a rank's process is itself. 0: it stands alone. */
static size_t common_name(const struct row *row, const struct scope *scope)
{
	const char *dash = memrchr(row->text, '-', row->length);

	if (!dash || (row->rank && *row->rank) ||
	    (double)row->total.samples >= SMALL_SHARE * (double)scope->total.samples)
		return 0;
	return (size_t)(dash - row->text);
}

static int join(const struct rows *rows, const struct scope *scope, struct intern *names, size_t *counts,
		struct rows *out)
{
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < rows->n; i++) {
			size_t length = common_name(&rows->list[i], scope);
			uint32_t number = 0;
			int ret = length ? intern__add(names, rows->list[i].text, length, &number) : 0;

			if (ret < 0)
				return ret;
			if (pass == 0) {
				counts[number] += length > 0;
				continue;
			}
			if (!length || counts[number] < MIN_ALIKE) {
				out->list[out->n++] = rows->list[i];
				continue;
			}
			/* The row of a name lies behind those of processes. */
			share__add(&out->list[rows->n + number].total, &rows->list[i].total);
			out->list[rows->n + number].alike++;
			out->list[rows->n + number].text = rows->list[i].text;
			out->list[rows->n + number].length = length;
		}
	return 0;
}

int rows__join_alike(const struct rows *rows, const struct scope *scope, struct rows *out)
{
	_cleanup_free_ size_t *counts = calloc(rows->n + 1, sizeof(*counts));
	struct intern names = { .n_keys = 0 };
	int ret;

	out->list = calloc(2 * rows->n + 1, sizeof(*out->list));
	if (!counts || !out->list)
		return -ENOMEM;
	ret = join(rows, scope, &names, counts, out);
	for (size_t i = 0; i < names.n_keys; i++)
		if (out->list[rows->n + i].alike)
			out->list[out->n++] = out->list[rows->n + i];
	intern__clear(&names);
	rows__sort_by_total(out);
	return ret;
}

/* Adds a sample to its names. seen: by name, the number of the last sample that had it, plus 1. */
static void count_sample(const struct scope *scope, size_t number, const struct share *share, const struct names *names,
			 struct rows *rows, size_t *seen)
{
	const struct profile_sample *sample = &scope->profile->samples[number];
	bool interpreter = false;
	bool nameless = false; /* user code without a line was called by what comes next */
	struct share *self = NULL;

	for (size_t i = 0; i < sample->n_lines; i++) {
		const struct profile_line *line = &scope->profile->lines[sample->lines[i]];
		uint32_t name = names->of_line[sample->lines[i]];

		if (name == NAMES_NONE) {
			nameless |= !line->kernel;
			continue;
		}
		if (name == names->folded) {
			interpreter = true;
			continue;
		}
		/* Recursion: once a sample. */
		if (seen[name] != number + 1)
			share__add(&rows->list[name].total, share);
		seen[name] = number + 1;
		if (self)
			continue;
		/* What code without a symbol calls is neither its own nor its callers'. */
		if (names->of_sources && nameless && frame_text__is_unnamed(line))
			self = &rows->none;
		else
			self = &rows->list[name].self;
	}
	if (!self && interpreter) {
		self = &rows->list[names->folded].self;
		share__add(&rows->list[names->folded].total, share);
	}
	share__add(self ?: &rows->none, share);
}

/* Leaves out what no sample of the scope has. */
static void drop_unused(struct rows *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++)
		if (rows->list[i].total.samples)
			rows->list[n++] = rows->list[i];
	rows->n = n;
}

int rows__of_names(const struct scope *scope, const struct names *names, struct rows *out)
{
	size_t n = names->texts.n_keys;
	_cleanup_free_ size_t *seen = calloc(n + 1, sizeof(*seen));
	struct share share;

	out->list = calloc(n + 1, sizeof(*out->list));
	if (!seen || !out->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		out->list[i] = (struct row){ .text = intern__key(&names->texts, i),
					     .length = intern__length(&names->texts, i),
					     .line = names->example[i] };
	for (size_t i = 0; i < scope->profile->n_samples; i++)
		if (scope__share(scope, &scope->profile->samples[i], &share))
			count_sample(scope, i, &share, names, out, seen);
	out->n = n;
	if (names->none_in_rows && out->none.samples)
		out->list[out->n++] = (struct row){ .text = names->none,
						    .length = strlen(names->none),
						    .self = out->none,
						    .total = out->none,
						    .line = ROW_NO_LINE };
	drop_unused(out);
	qsort(out->list, out->n, sizeof(*out->list), rows__compare_self);
	return 0;
}

/* One thread or process, while they are counted. */
struct group {
	struct share share;
	const struct profile_sample *name; /* a sample that bears it */
	const char *rank, *container;      /* the last one that a sample has; "": none does */
};

struct groups {
	struct intern ids; /* pid, tid (0 for a process) */
	struct group *list;
	size_t capacity;
};

static void groups__clear(struct groups *groups)
{
	intern__clear(&groups->ids);
	free(groups->list);
}
CLEANUP_DEFINE(struct groups *, groups, groups__clear)

static int add_to_group(struct groups *groups, const struct profile_sample *sample, bool threads,
			const struct share *share)
{
	const int64_t id[2] = { sample->pid, threads ? sample->tid : 0 };
	struct group *group;
	uint32_t number;
	int ret;

	if (ARRAY_RESERVE(groups->list, groups->capacity, groups->ids.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&groups->ids, id, sizeof(id), &number);
	if (ret < 0)
		return ret;
	group = &groups->list[number];
	if (ret)
		*group = (struct group){ .name = sample, .rank = "", .container = "" };
	if (sample->rank && *sample->rank)
		group->rank = sample->rank;
	if (sample->container && *sample->container)
		group->container = sample->container;
	share__add(&group->share, share);
	/* A process is called like its main thread, where that was seen. */
	if (!threads && sample->tid == sample->pid && group->name->tid != sample->pid)
		group->name = sample;
	return 0;
}

static int name_group(const struct group *group, bool threads, struct rows *out, struct text *text)
{
	struct profile_sample named = *group->name;
	uint32_t number;
	int ret;

	if (!threads)
		named.tid = 0;
	text->length = 0;
	ret = frame_text__thread(&named, true, text);
	if (!ret && threads)
		ret = frame_text__thread_name(&named, ' ', text);
	ret = ret ?: intern__add(&out->texts, text->bytes, text->length, &number);
	if (ret < 0)
		return ret;
	/* A name may be that of two, where the labels are another tool's; so the text's number is the row's. */
	if (ret)
		out->list[out->n++] =
			(struct row){ .line = number, .rank = group->rank, .container = group->container };
	share__add(&out->list[number].self, &group->share);
	return 0;
}

int rows__of_threads(const struct scope *scope, bool threads, struct rows *out)
{
	_cleanup_(groups) struct groups *groups = &(struct groups){ .capacity = 0 };
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	struct share share;
	int ret = 0;

	for (size_t i = 0; !ret && i < scope->profile->n_samples; i++) {
		const struct profile_sample *sample = &scope->profile->samples[i];

		if (!scope__share(scope, sample, &share))
			continue;
		if (!sample->pid || (threads && !sample->tid))
			share__add(&out->none, &share);
		else
			ret = add_to_group(groups, sample, threads, &share);
	}
	out->list = calloc(groups->ids.n_keys + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < groups->ids.n_keys; i++)
		ret = name_group(&groups->list[i], threads, out, text);
	/* The block of texts moves while it grows. */
	for (size_t i = 0; i < out->n; i++) {
		struct row *row = &out->list[i];

		row->text = intern__key(&out->texts, row->line);
		row->length = intern__length(&out->texts, row->line);
		row->total = row->self;
		row->line = ROW_NO_LINE;
	}
	qsort(out->list, out->n, sizeof(*out->list), rows__compare_self);
	return ret;
}
