// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/alloc_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/session/json_value.h"
#include "stakeout/array.h"

/* How well it is known what a probe takes: in a program, and on a busy machine, more than where it is measured. */
#define PRICE_ERROR 0.5
/* Probes that take more of a window's time: the rest of it, which figures are scaled by, is not known well enough. */
#define MOST_SHARE 0.4

/* A comment's number; `without` where there is none. */
static double number(const struct profile *profile, const char *key, double without)
{
	const char *text = profile__comment(profile, key);
	char *end;
	double value = text ? strtod(text, &end) : 0;

	return text && end != text && !*end && isfinite(value) && value >= 0 ? value : without;
}

static int open_profile(const uint8_t *bytes, size_t length, const char *value, struct profile **out,
			struct so_error *err)
{
	int ret = profile__read_value(bytes, length, value, out, err);

	if (!ret && !profile__comment(*out, "alloc.allocators"))
		ret = so_err(err, -EINVAL, "the profile is none of 'stakeout memory --allocations'");
	return ret;
}

bool alloc_report__is(const uint8_t *bytes, size_t length)
{
	_cleanup_(profile) struct profile *profile = NULL;

	return !open_profile(bytes, length, "freed_space", &profile, NULL);
}

int alloc_report__check(const uint8_t *bytes, size_t length, struct so_error *err)
{
	_cleanup_(profile) struct profile *profile = NULL;
	int ret = open_profile(bytes, length, "inuse_space", &profile, err);

	if (ret || number(profile, "alloc.linked", 0) > 0)
		return ret;
	return so_err(err, -ENOTSUP, "process %.0f: %s", number(profile, "pid", 0),
		      profile__comment(profile, "alloc.problem")
			      ?: "no file that it has mapped has malloc or its like by a symbol");
}

/* Ages. */

struct aged {
	const struct alloc_line *line; /* by its text */
	double age_ns, bytes;
};

static int compare_ages(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->age_ns > y->age_ns) - (x->age_ns < y->age_ns);
}

static struct alloc_line *find_line(struct alloc_report *r, const char *text)
{
	for (size_t i = 0; i < r->n_lines; i++)
		if (!strcmp(r->lines[i].line.text, text))
			return &r->lines[i];
	return NULL;
}

/* Of one line's, by rising age. */
static double median(const struct aged *aged, size_t n)
{
	double sum = 0, half = 0;

	for (size_t i = 0; i < n; i++)
		half += aged[i].bytes / 2;
	for (size_t i = 0; i < n; i++) {
		sum += aged[i].bytes;
		if (sum >= half)
			return aged[i].age_ns;
	}
	return 0;
}

static int read_ages(struct alloc_report *r, const struct profile *freed)
{
	_cleanup_free_ struct aged *aged = calloc(freed->n_samples + 1, sizeof(*aged));
	size_t n = 0;
	char *text;
	int ret = aged ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < freed->n_samples; i++) {
		const struct profile_sample *sample = &freed->samples[i];

		if (!sample->count || !sample->age_ns)
			continue;
		ret = memory_line__text(freed, sample, &text);
		if (ret)
			break;
		aged[n] = (struct aged){ find_line(r, text), (double)sample->age_ns, (double)sample->count };
		n += aged[n].line != NULL;
		free(text);
	}
	if (ret)
		return ret;
	if (n)
		qsort(aged, n, sizeof(*aged), compare_ages);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && aged[end].line == aged[i].line;)
			end++;
		r->lines[aged[i].line - r->lines].age_ns = median(&aged[i], end - i);
	}
	return 0;
}

/* Lines. */

static int compare_lines(const void *a, const void *b)
{
	const struct alloc_line *x = a, *y = b;

	if (x->line.allocated != y->line.allocated)
		return x->line.allocated < y->line.allocated ? 1 : -1;
	return strcmp(x->line.text, y->line.text);
}

static int read_lines(const uint8_t *bytes, size_t length, struct alloc_report *r, struct so_error *err)
{
	_cleanup_(profile) struct profile *freed = NULL, *calls = NULL;
	_cleanup_(memory_lines) struct memory_lines *more = NULL;
	const struct memory_lines *lines = r->memory.lines;
	int ret = open_profile(bytes, length, "freed_space", &freed, err);

	ret = ret ?: open_profile(bytes, length, "alloc_objects", &calls, err);
	if (ret)
		return ret;
	r->lines = calloc(lines->n + 1, sizeof(*r->lines));
	ret = r->lines ? memory_lines__new(freed, calls, 1, &more) : -ENOMEM;
	for (size_t i = 0; !ret && i < lines->n; i++)
		r->lines[r->n_lines++].line = lines->lines[i];
	for (size_t i = 0; !ret && i < more->n; i++) {
		struct alloc_line *line = find_line(r, more->lines[i].text);

		if (!line)
			continue;
		line->freed = more->lines[i].in_use;
		line->calls = more->lines[i].allocated;
	}
	if (!ret && r->n_lines)
		qsort(r->lines, r->n_lines, sizeof(*r->lines), compare_lines);
	ret = ret ?: read_ages(r, freed);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

static double real_of(const json_t *json, const char *name)
{
	double value = json_number_value(json_object_get(json, name));

	return isfinite(value) && value > 0 ? value : 0;
}

static int read_kinds(const struct profile *profile, struct alloc_report *r)
{
	json_auto_t *json = json_loads(profile__comment(profile, "alloc.allocators"), 0, NULL);
	const json_t *kind;
	size_t i;

	if (!json_is_array(json))
		return -EINVAL;
	r->kinds = calloc(json_array_size(json) + 1, sizeof(*r->kinds));
	if (!r->kinds)
		return -ENOMEM;
	json_array_foreach (json, i, kind) {
		struct alloc_kind *to = &r->kinds[r->n_kinds++];

		*to = (struct alloc_kind){ .bytes = real_of(kind, "bytes"),
					   .calls = real_of(kind, "calls"),
					   .freed = real_of(kind, "freed_bytes"),
					   .in_use = real_of(kind, "in_use_bytes"),
					   .chosen = real_of(kind, "chosen") };
		json_value__text(kind, "allocator", to->name, sizeof(to->name));
	}
	return 0;
}

/* Marks on bytes are counts of Poisson's, each worth sample_bytes at most. */
double alloc_report__error(const struct alloc_report *r, double bytes)
{
	return sqrt(bytes * r->sample_bytes);
}

/*
 * Of all: with the spread between windows, which has all that differs between them; and with what is not known of the
 * probes' own time, which is left out of that in windows.
 */
static double error_of_all(const struct alloc_report *r, const struct profile *profile)
{
	double share = fmin(number(profile, "alloc.probes_permille", 0) / 1000, 0.999);
	double windows = number(profile, "alloc.window_error_bytes", 0);
	double prices = r->windowed ? PRICE_ERROR * share / (1 - share) * r->bytes : 0;

	return hypot(fmax(alloc_report__error(r, r->bytes), windows), prices);
}

static void read_numbers(struct alloc_report *r, const struct profile *profile)
{
	double seen_ns = number(profile, "alloc.seen_ns", 0);

	r->sample_bytes = number(profile, "memory.page_bytes", 0);
	r->hits = number(profile, "alloc.hits", 0);
	r->chosen = number(profile, "alloc.chosen", 0);
	r->nested = number(profile, "alloc.nested", 0);
	r->left_out = number(profile, "alloc.left_out", 0);
	r->unfollowed = number(profile, "alloc.unfollowed", 0);
	r->replaced = number(profile, "alloc.replaced", 0);
	r->failed = number(profile, "alloc.failed", 0);
	r->hidden = number(profile, "alloc.hidden", 0);
	r->strange = number(profile, "alloc.strange", 0);
	r->windowed = number(profile, "alloc.windows", 0) > 0;
	r->dense = r->windowed && number(profile, "alloc.probes_permille", 0) > 1000 * MOST_SHARE;
	r->seen_percent = profile->duration_ns > 0 ? fmin(100, 100 * seen_ns / (double)profile->duration_ns) : 100;
	for (size_t i = 0; i < r->n_kinds; i++)
		r->bytes += r->kinds[i].bytes;
	r->error = error_of_all(r, profile);
}

int alloc_report__read(const uint8_t *bytes, size_t length, struct alloc_report *out, struct so_error *err)
{
	int ret = alloc_report__check(bytes, length, err) ?: memory_report__read(bytes, length, &out->memory, err);

	if (ret)
		return ret;
	if (read_kinds(out->memory.in_use, out))
		return so_err(err, -EINVAL, "the profile is damaged: its list of allocators is none");
	read_numbers(out, out->memory.in_use);
	return read_lines(bytes, length, out, err);
}

void alloc_report__clear(struct alloc_report *report)
{
	memory_report__clear(&report->memory);
	free(report->lines);
	free(report->kinds);
}

const struct memory_line *alloc_report__culprit(const struct alloc_report *report)
{
	return report->windowed ? NULL : memory_report__culprit(&report->memory);
}
