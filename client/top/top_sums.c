// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "client/summary/summary_names.h"
#include "client/summary/summary_parts.h"
#include "profile/wall_states.h"
#include "stakeout/array.h"

/* Time of one thread at one place, in the newest profile. */
struct places {
	struct intern keys; /* thread, state, line */
	double *ns;
	size_t capacity;
};

static void places__clear(struct places *places)
{
	intern__clear(&places->keys);
	free(places->ns);
}
CLEANUP_DEFINE(struct places *, places, places__clear)

static const char *state_of(const struct profile *profile, const struct profile_sample *sample)
{
	if (!profile->wall)
		return "running";
	return wall_states[*sample->state ? wall_state__index(sample->state) : 0];
}

static enum top_part part_of(const char *state)
{
	if (!strcmp(state, "running"))
		return TOP_RUNNING;
	return strcmp(state, "runnable") ? TOP_WAITING : TOP_RUNNABLE;
}

static int add_text(struct top_sums *s, const char *bytes, size_t length, uint32_t *number)
{
	int ret = intern__add(&s->texts, length ? bytes : "", length, number);

	return ret < 0 ? ret : 0;
}

static int find_thread(struct top_sums *s, const struct profile *profile, const struct profile_sample *sample,
		       uint32_t *number)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	const int64_t id[2] = { sample->pid, sample->tid };
	struct top_thread *thread;
	const char *name;
	size_t role;
	int ret;

	if (ARRAY_RESERVE(s->threads, s->thread_capacity, s->ids.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&s->ids, id, sizeof(id), number);
	if (ret < 0)
		return ret;
	thread = &s->threads[*number];
	if (ret) {
		*thread = (struct top_thread){ .pid = id[0], .tid = id[1] };
		thread->role = thread->state = thread->line = TOP_NO_TEXT;
		ret = frame_text__thread(sample, false, text);
		ret = ret ?: add_text(s, text->bytes, text->length, &thread->comm);
	}
	if (ret || thread->role != TOP_NO_TEXT)
		return ret;
	name = sample->thread && *sample->thread ? sample->thread : NULL;
	role = name ? SIZE_MAX : thread_role(profile, sample);
	if (!name && role == SIZE_MAX)
		return 0;
	text->length = 0;
	ret = frame_text__words(name ?: profile->lines[role].function, text);
	return ret ?: add_text(s, text->bytes, text->length, &thread->role);
}

static int add_place(struct top_sums *s, const struct profile *profile, const struct profile_sample *sample,
		     uint32_t thread, struct places *places)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	const char *state = state_of(profile, sample);
	uint32_t key[3] = { thread, 0, 0 }, number;
	int ret = own_line__text(profile, sample, text);

	ret = ret ?: add_text(s, state, strlen(state), &key[1]);
	ret = ret ?: add_text(s, text->bytes, text->length, &key[2]);
	if (ret)
		return ret;
	if (ARRAY_RESERVE(places->ns, places->capacity, places->keys.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&places->keys, key, sizeof(key), &number);
	if (ret < 0)
		return ret;
	places->ns[number] = (ret ? 0 : places->ns[number]) + (double)sample->value_ns;
	return 0;
}

static void take_places(struct top_sums *s, const struct places *places)
{
	for (size_t i = 0; i < places->keys.n_keys; i++) {
		const uint32_t *key = intern__key(&places->keys, i);
		struct top_thread *thread = &s->threads[key[0]];

		if (thread->state != TOP_NO_TEXT && places->ns[i] <= thread->place_ns)
			continue;
		thread->state = key[1];
		thread->line = key[2];
		thread->place_ns = places->ns[i];
	}
}

static int add_threads(struct top_sums *s, const struct profile *profile, bool newest)
{
	_cleanup_(places) struct places *places = &(struct places){ .capacity = 0 };
	uint32_t thread;
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		enum top_part part = part_of(state_of(profile, sample));

		ret = find_thread(s, profile, sample, &thread);
		if (ret)
			return ret;
		s->threads[thread].ns[part] += (double)sample->value_ns;
		s->ns[part] += (double)sample->value_ns;
		if (newest)
			ret = add_place(s, profile, sample, thread, places);
	}
	take_places(s, places);
	return ret;
}

static int add_row(struct top_names *names, const struct row *row, const double ns[TOP_VALUES])
{
	uint32_t number;
	int ret;

	if (ARRAY_RESERVE(names->ns, names->capacity, names->texts.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&names->texts, row->text, row->length, &number);
	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < TOP_VALUES; i++)
		names->ns[number][i] = (ret ? 0 : names->ns[number][i]) + ns[i];
	return 0;
}

static int add_rows(struct top_names *to, const struct scope *scope, const struct names *names, bool running)
{
	struct rows rows = { .n = 0 };
	int ret = rows__of_names(scope, names, &rows);

	for (size_t i = 0; !ret && i < rows.n; i++) {
		const struct row *row = &rows.list[i];
		const double ns[TOP_VALUES] = {
			[TOP_SELF] = running ? row->self.ns : 0,
			[TOP_TOTAL] = running ? row->total.ns : 0,
			[TOP_WAITS] = running ? 0 : row->total.ns,
		};

		ret = add_row(to, row, ns);
	}
	rows__clear(&rows);
	return ret;
}

/* A thread that only waits for something to do is not waited for. */
static bool counts(const struct profile *profile, const struct profile_sample *sample, bool running)
{
	const char *state = state_of(profile, sample);

	if (running)
		return part_of(state) == TOP_RUNNING;
	return part_of(state) == TOP_WAITING && strcmp(state, "idle");
}

/* Of the samples of threads that run, or of those that wait; samples: room for all of them. */
static int add_names(struct top_sums *s, const struct profile *profile, bool running, struct profile_sample *samples)
{
	static const struct render_options all = { .threads = false };
	static const struct summary_style plain;
	struct names functions = { .of_line = NULL }, lines = { .of_line = NULL };
	struct profile part = *profile;
	struct scope scope;
	int ret;

	part.samples = samples;
	part.n_samples = 0;
	for (size_t i = 0; i < profile->n_samples; i++)
		if (counts(profile, &profile->samples[i], running))
			samples[part.n_samples++] = profile->samples[i];
	scope__init(&part, &all, &plain, &scope);
	ret = part.n_samples ? names__functions(&scope, false, &functions) : 0;
	if (!ret && part.n_samples)
		ret = add_rows(&s->functions, &scope, &functions, running);
	if (!ret && part.n_samples)
		ret = names__lines(&scope, &lines);
	if (!ret && part.n_samples)
		ret = add_rows(&s->lines, &scope, &lines, running);
	names__clear(&functions);
	names__clear(&lines);
	return ret;
}

static double sum_of(const json_t *causes)
{
	const char *word;
	double sum = 0;
	json_t *value;

	json_object_foreach ((json_t *)causes, word, value)
		sum += json_number_value(value);
	return sum;
}

static void add_figures(struct top_sums *s, const struct profile *profile)
{
	json_auto_t *figures = figures__from_comments(profile);
	double complete = 0;

	figures__number(figures, "complete", &complete);
	s->complete += complete;
	s->truncated += sum_of(json_object_get(figures, "truncated"));
	s->lost += sum_of(json_object_get(figures, "lost"));
}

int top_sums__add(struct top_sums *s, const struct profile *profile, bool newest)
{
	_cleanup_free_ struct profile_sample *samples = calloc(profile->n_samples + 1, sizeof(*samples));
	int ret = samples ? add_threads(s, profile, newest) : -ENOMEM;

	ret = ret ?: add_names(s, profile, true, samples);
	ret = ret ?: add_names(s, profile, false, samples);
	if (ret < 0)
		return ret;
	s->wall |= profile->wall;
	add_figures(s, profile);
	return 0;
}

static void clear_names(struct top_names *names)
{
	intern__clear(&names->texts);
	free(names->ns);
}

void top_sums__clear(struct top_sums *s)
{
	intern__clear(&s->texts);
	intern__clear(&s->ids);
	free(s->threads);
	clear_names(&s->functions);
	clear_names(&s->lines);
	*s = (struct top_sums){ .wall = false };
}
