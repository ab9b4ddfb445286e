// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/memory_lines.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"
#include "stakeout/short_path.h"

/* The daemon's: MEMORY_PROFILE_SPANS of daemon/memory/memory_profile.h. */
#define SPANS 20

struct maker {
	struct memory_lines *lines;
	struct intern texts, functions;
	size_t capacity;
	struct text text;
};

/* Code that allocates for others: allocators, and what the compiler took from the libraries of C++ and Rust. */
static bool is_of_allocator(const struct profile_line *line)
{
	static const char *const files[] = { "libc.so",     "libc-2.",     "ld-linux", "libstdc++.so", "libjemalloc",
					     "libmimalloc", "libtcmalloc", "libc10",   "ld-musl",      "[" };
	/* The last ones are those of a program that has the C library in itself. */
	static const char *const names[] = {
		"operator new",     "std::",         "__gnu_cxx::", "alloc::",   "<alloc::", "__rust",
		"malloc",           "calloc",        "realloc",     "sysmalloc", "_int_",    "__libc_",
		"memset",           "memcpy",        "memmove",     "__mem",     "memalign", "posix_memalign",
		"__posix_memalign", "aligned_alloc", "__calloc",    "__strdup",  "__strndup"
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strncmp(short_path(line->mapping), files[i], strlen(files[i])))
			return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(line->function, names[i], strlen(names[i])))
			return true;
	return strstr(line->filename, "/include/c++/") != NULL;
}

/*
 * Of a stack without Python, or a script that a just-in-time compiler names, the innermost frame that allocates for
 * itself.
 */
size_t memory_line__frame(const struct profile *profile, const struct profile_sample *sample)
{
	size_t native = SIZE_MAX;

	for (size_t i = 0; i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (line->python || is_own_code(line))
			return own_line(profile, sample);
		if (native == SIZE_MAX && !line->kernel && !is_of_allocator(line) && !frame_text__is_unnamed(line))
			native = sample->lines[i];
	}
	return native == SIZE_MAX ? own_line(profile, sample) : native;
}

static int text_of(struct maker *m, const struct profile_line *line)
{
	m->text.length = 0;
	if (!line)
		return frame_text__words("[no frame]", &m->text);
	return line->python ? frame_text__folded(line, false, &m->text) : frame_text__line(line, &m->text);
}

static int function_of(struct maker *m, const struct profile_line *line, uint32_t *number)
{
	int ret;

	m->text.length = 0;
	ret = line ? frame_text__function(line, &m->text) : 0;
	ret = ret ?: intern__add(&m->functions, m->text.bytes ?: "", m->text.length, number);
	return ret < 0 ? ret : 0;
}

static int add_line(struct maker *m, const struct profile_line *line)
{
	struct memory_lines *all = m->lines;
	struct memory_line *new;

	if (ARRAY_RESERVE(all->lines, m->capacity, all->n + 1))
		return -ENOMEM;
	new = &all->lines[all->n];
	*new = (struct memory_line){ .text = strndup(m->text.bytes, m->text.length) };
	if (!new->text)
		return -ENOMEM;
	all->n++;
	return function_of(m, line, &new->function);
}

static int line_of(struct maker *m, const struct profile *profile, const struct profile_sample *sample,
		   struct memory_line **out)
{
	size_t frame = memory_line__frame(profile, sample);
	const struct profile_line *line = frame == SIZE_MAX ? NULL : &profile->lines[frame];
	uint32_t number;
	int ret = text_of(m, line);

	ret = ret ?: intern__add(&m->texts, m->text.bytes, m->text.length, &number);
	if (ret > 0)
		ret = add_line(m, line);
	if (!ret)
		*out = &m->lines->lines[number];
	return ret;
}

int memory_line__text(const struct profile *profile, const struct profile_sample *sample, char **out)
{
	size_t frame = memory_line__frame(profile, sample);
	struct maker m = { .lines = NULL };
	int ret = text_of(&m, frame == SIZE_MAX ? NULL : &profile->lines[frame]);

	*out = ret ? NULL : strndup(m.text.bytes, m.text.length);
	text__clear(&m.text);
	return ret ?: *out ? 0 : -ENOMEM;
}

/* Which part of the recording a sample is of, from 0 on. */
static unsigned span_of(const struct profile *profile, const struct profile_sample *sample)
{
	double span_ns = (double)profile->duration_ns / SPANS;
	double span = span_ns > 0 ? (double)sample->time_ns / span_ns + 0.5 : 0;

	return span < SPANS ? (unsigned)span : SPANS - 1;
}

static int add_in_use(struct maker *m, const struct profile *profile)
{
	const unsigned kept = (unsigned)(MEMORY_KEPT_SHARE * SPANS);
	struct memory_line *line;
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		unsigned span = span_of(profile, sample);

		if (!sample->count)
			continue;
		ret = line_of(m, profile, sample, &line);
		if (ret)
			break;
		line->in_use += (double)sample->count;
		m->lines->in_use += (double)sample->count;
		if (span >= kept)
			continue;
		line->kept[span >= kept / 2] += (double)sample->count;
		m->lines->kept += (double)sample->count;
	}
	return ret;
}

static int add_allocated(struct maker *m, const struct profile *profile)
{
	struct memory_line *line;
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		if (!sample->count)
			continue;
		ret = line_of(m, profile, sample, &line);
		if (ret)
			break;
		line->allocated += (double)sample->count;
		m->lines->allocated += (double)sample->count;
	}
	return ret;
}

/* Chosen pages are counts of Poisson's: the square root of one has a standard error of 1/2. */
static void add_rate(struct memory_line *line, double seconds, double page_bytes)
{
	double kept = line->kept[0] + line->kept[1], root = sqrt(kept / page_bytes);

	if (!(seconds > 0))
		return;
	line->rate = kept / seconds;
	line->low = root > 0.98 ? (root - 0.98) * (root - 0.98) * page_bytes / seconds : 0;
	line->high = (root + 0.98) * (root + 0.98) * page_bytes / seconds;
}

static int compare(const void *a, const void *b)
{
	const struct memory_line *x = a, *y = b;

	if (x->rate != y->rate)
		return x->rate < y->rate ? 1 : -1;
	if (x->in_use != y->in_use)
		return x->in_use < y->in_use ? 1 : -1;
	if (x->allocated != y->allocated)
		return x->allocated < y->allocated ? 1 : -1;
	return strcmp(x->text, y->text);
}

static int add_function_rates(struct maker *m)
{
	double *rates = calloc(m->functions.n_keys + 1, sizeof(*rates));

	if (!rates)
		return -ENOMEM;
	for (size_t i = 0; i < m->lines->n; i++)
		rates[m->lines->lines[i].function] += m->lines->lines[i].rate;
	for (size_t i = 0; i < m->lines->n; i++)
		m->lines->lines[i].function_rate = rates[m->lines->lines[i].function];
	free(rates);
	return 0;
}

int memory_lines__new(const struct profile *in_use, const struct profile *allocated, double page_bytes,
		      struct memory_lines **out)
{
	_cleanup_(memory_lines) struct memory_lines *lines = calloc(1, sizeof(*lines));
	struct maker m = { .lines = lines };
	int ret = lines ? add_in_use(&m, in_use) : -ENOMEM;

	ret = ret ?: add_allocated(&m, allocated);
	for (size_t i = 0; !ret && i < lines->n; i++)
		add_rate(&lines->lines[i], MEMORY_KEPT_SHARE * (double)in_use->duration_ns / 1e9, page_bytes);
	ret = ret ?: add_function_rates(&m);
	intern__clear(&m.texts);
	intern__clear(&m.functions);
	text__clear(&m.text);
	if (ret)
		return ret;
	if (lines->n)
		qsort(lines->lines, lines->n, sizeof(*lines->lines), compare);
	*out = TAKE_PTR(lines);
	return 0;
}

void memory_lines__free(struct memory_lines *lines)
{
	if (!lines)
		return;
	for (size_t i = 0; i < lines->n; i++)
		free(lines->lines[i].text);
	free(lines->lines);
	free(lines);
}

/* In either part a quarter of what half of it would be. */
bool memory_line__keeps(const struct memory_line *line)
{
	double least = (line->kept[0] + line->kept[1]) / 8;

	return line->low > 0 && line->kept[0] > least && line->kept[1] > least;
}
