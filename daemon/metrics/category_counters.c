// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/metrics/category_counters.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "profile/category_verdict.h"

struct counted {
	uint32_t id; /* 0: the place is free */
	int64_t ns[CATEGORY_COUNTERS_MAX];
	bool wall; /* a profile in wall time was added */
	int64_t wall_ns[WALL_STATE_COUNT];
};

struct category_counters {
	struct engine *engine;
	const struct category_rules *rules;
	const char *names[CATEGORY_COUNTERS_MAX];
	size_t n;
	unsigned char *place; /* in names[], by number of the category */

	pthread_mutex_t work; /* guards memory; comes before `lock` */
	struct category_memory memory;
	pthread_mutex_t lock; /* guards targets */
	struct counted targets[ENGINE_MAX_TARGETS];
};

static bool is_shown(const struct category_rules *rules, size_t category)
{
	return category >= category_rules__count(rules) || category_rules__has_patterns(rules, category);
}

/*
 * Where there is no place for all, the last ones of the file share one; leftovers have their own. A category that is
 * called as the shared one is part of it, since a series may be there once only.
 */
static void place_categories(struct category_counters *c)
{
	size_t all = category_verdict__count(c->rules), shown = 0, own = 0, taken = 0;
	bool shared = false;

	for (size_t i = 0; i < all; i++)
		shown += is_shown(c->rules, i);
	own = shown > CATEGORY_COUNTERS_MAX ? CATEGORY_COUNTERS_MAX - 1 - CATEGORY_LEFTOVERS : all;
	for (size_t i = 0; i < all; i++) {
		const char *name = category_verdict__name(c->rules, i);
		bool leftover = i >= category_rules__count(c->rules);

		if (!is_shown(c->rules, i))
			continue;
		if (!strcmp(name, CATEGORY_COUNTERS_OTHER) || (!leftover && taken == own)) {
			c->place[i] = CATEGORY_COUNTERS_MAX;
			shared = true;
			continue;
		}
		taken++;
		c->place[i] = (unsigned char)c->n;
		c->names[c->n++] = name;
	}
	if (!shared)
		return;
	for (size_t i = 0; i < all; i++)
		if (c->place[i] == CATEGORY_COUNTERS_MAX)
			c->place[i] = (unsigned char)c->n;
	c->names[c->n++] = CATEGORY_COUNTERS_OTHER;
}

int category_counters__new(struct engine *engine, const struct category_rules *rules, struct category_counters **out)
{
	struct category_counters *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->engine = engine;
	c->rules = rules;
	c->place = calloc(category_verdict__count(rules), 1);
	if (!c->place) {
		free(c);
		return -ENOMEM;
	}
	pthread_mutex_init(&c->work, NULL);
	pthread_mutex_init(&c->lock, NULL);
	place_categories(c);
	*out = c;
	return 0;
}

void category_counters__free(struct category_counters *c)
{
	if (!c)
		return;
	category_memory__clear(&c->memory);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->work);
	free(c->place);
	free(c);
}

size_t category_counters__count(const struct category_counters *c)
{
	return c->n;
}

const char *category_counters__name(const struct category_counters *c, size_t category)
{
	return c->names[category];
}

/* id 0: a free place. With the lock held. */
static struct counted *find(struct category_counters *c, uint32_t id)
{
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++)
		if (c->targets[i].id == id)
			return &c->targets[i];
	return NULL;
}

/* Numbers of targets are never used again, so a counter that is not needed does no harm before. */
static void forget_gone(struct category_counters *c)
{
	struct target_info info;

	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++)
		if (c->targets[i].id && engine__info(c->engine, c->targets[i].id, &info))
			c->targets[i].id = 0;
}

int category_counters__begin(struct category_counters *c, uint32_t id)
{
	struct counted *place;
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	place = find(c, id);
	if (!place) {
		place = find(c, 0);
		if (!place) {
			forget_gone(c);
			place = find(c, 0);
		}
		if (place)
			*place = (struct counted){ .id = id };
		else
			ret = -ENOSPC;
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

static void add_sample(struct category_sums *sums, const struct profile *profile, const struct profile_sample *sample,
		       size_t category)
{
	sums->cpu_ns[category] += sample->cpu_ns;
	if (!profile->wall)
		return;
	sums->wall_ns[category] += sample->value_ns;
	sums->state_ns[wall_state__index(sample->state)] += sample->value_ns;
}

static int sort(struct category_counters *c, const struct profile *profile, struct category_sums *sums)
{
	_cleanup_(category_lines) struct category_lines *lines = &(struct category_lines){ 0 };
	int ret;

	pthread_mutex_lock(&c->work);
	ret = category_lines__match(c->rules, profile, &c->memory, lines);
	pthread_mutex_unlock(&c->work);
	if (ret)
		return ret;
	sums->wall |= profile->wall;
	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		add_sample(sums, profile, sample, c->place[category_lines__judge(lines, sample).category]);
	}
	return 0;
}

int category_counters__sum(struct category_counters *c, const void *bytes, size_t length, struct category_sums *sums,
			   struct so_error *err)
{
	_cleanup_(profile) struct profile *profile = NULL;
	int ret = profile__read(bytes, length, &profile, err);

	if (ret)
		return ret;
	ret = sort(c, profile, sums);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

static void add_sums(struct counted *target, size_t n, const struct category_sums *sums)
{
	for (size_t i = 0; i < n; i++)
		target->ns[i] += sums->cpu_ns[i];
	target->wall |= sums->wall;
	for (size_t i = 0; i < WALL_STATE_COUNT; i++)
		target->wall_ns[i] += sums->state_ns[i];
}

int category_counters__add(struct category_counters *c, uint32_t id, const void *bytes, size_t length,
			   struct so_error *err)
{
	struct category_sums sums = { 0 };
	struct counted *target;
	int ret = category_counters__sum(c, bytes, length, &sums, err);

	if (ret)
		return ret;
	pthread_mutex_lock(&c->lock);
	target = find(c, id);
	if (target)
		add_sums(target, c->n, &sums);
	pthread_mutex_unlock(&c->lock);
	return target ? 0 : so_err(err, -ENOENT, "target %u has no counters", id);
}

bool category_counters__get(struct category_counters *c, uint32_t id, int64_t ns[CATEGORY_COUNTERS_MAX])
{
	const struct counted *target;

	pthread_mutex_lock(&c->lock);
	target = id ? find(c, id) : NULL;
	if (target)
		memcpy(ns, target->ns, sizeof(target->ns));
	pthread_mutex_unlock(&c->lock);
	return target;
}

bool category_counters__get_states(struct category_counters *c, uint32_t id, int64_t ns[WALL_STATE_COUNT])
{
	const struct counted *target;
	bool wall;

	pthread_mutex_lock(&c->lock);
	target = id ? find(c, id) : NULL;
	wall = target && target->wall;
	if (wall)
		memcpy(ns, target->wall_ns, sizeof(target->wall_ns));
	pthread_mutex_unlock(&c->lock);
	return wall;
}
