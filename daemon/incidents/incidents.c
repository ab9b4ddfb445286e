// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/incidents/incidents.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/incidents/incident_store.h"
#include "daemon/os/clock.h"
#include "daemon/os/limits.h"
#include "daemon/os/log.h"
#include "stakeout/array.h"

#define SECOND_NS 1000000000ull
/* A step that is under way may end: its whole time is worth so much patience. */
#define PATIENCE_NS (30 * SECOND_NS)
/* How fresh the GPUs' figures are that a look goes by: NVML is asked twice a second at most. */
#define GPU_SINCE_NS (2 * SECOND_NS)
#define TRIES        5 /* to write one: the daemon may be busy with other profiles, or the disk full */

/* Incidents of one sort: a pause after one leaves none of another sort out. */
enum sort {
	SORT_TIME, /* of which the latest seconds are kept */
	SORT_GPU,  /* the memory on GPUs */
	SORTS,
};

struct lane {
	uint64_t next_ns;  /* not before; 0: at any time */
	unsigned left_out; /* since the last one that was kept */
	/* One that could not be written yet, and how often that was tried; 0: there is none. */
	struct incident pending;
	unsigned tries;
};

struct watch {
	uint32_t target;
	struct caller caller;
	struct incident_options options;
	struct incident_memory memory[INCIDENT_RULES_MAX];
	uint64_t slow_ns; /* when a slow step was first seen; 0: none is waited for */
	struct lane lanes[SORTS];
};

struct incidents {
	struct engine *engine;
	struct incident_store *store;
	pthread_mutex_t lock; /* for all that follows, and the store; never while a profile is built */
	pthread_cond_t wake;
	struct watch *watches;
	size_t n, capacity;
	bool stop;
	pthread_t thread;
	bool runs;
};

static void fill(const struct engine_activity *activity, uid_t uid, double last_s, const char *why,
		 struct incident *out)
{
	*out = (struct incident){
		.time_ns = (int64_t)clock__read_ns(CLOCK_REALTIME), .pid = activity->pid, .uid = uid, .last_s = last_s
	};
	memcpy(out->comm, activity->comm, sizeof(out->comm));
	snprintf(out->why, sizeof(out->why), "%s", why);
}

/* incident: id and bytes are filled in; gpu: of the memory on GPUs. Without the lock. */
static int keep(struct incidents *all, uint32_t target, struct caller caller, bool gpu, struct incident *incident,
		struct so_error *err)
{
	_cleanup_free_ uint8_t *profile = NULL;
	size_t length;
	int ret = limits__wait_profile(caller.uid, err);

	if (ret)
		return ret;
	ret = gpu ? engine__gpu_memory(all->engine, target, caller, &profile, &length, err)
		  : engine__profile(all->engine, target, caller, incident->last_s, &profile, &length, err);
	limits__give_of(LIMIT_PROFILES, caller.uid, 1);
	if (ret)
		return ret;
	pthread_mutex_lock(&all->lock);
	ret = incident_store__add(all->store, incident, profile, length, err);
	pthread_mutex_unlock(&all->lock);
	return ret;
}

static enum sort sort_of(const struct incident_rule *rule)
{
	return rule->kind == INCIDENT_OOM ? SORT_GPU : SORT_TIME;
}

/* Tried again at the next looks, where what led to it is a second older each time. */
static void keep_pending(struct incidents *all, struct watch *w, enum sort sort, uint64_t now_ns)
{
	struct lane *lane = &w->lanes[sort];
	struct incident *incident = &lane->pending;
	struct so_error err = { .text = "" };

	incident->left_out = lane->left_out;
	if (!keep(all, w->target, w->caller, sort == SORT_GPU, incident, &err)) {
		log__info("incident %u, process %d (%s): %s", incident->id, incident->pid, incident->comm,
			  incident->why);
		lane->left_out = 0;
		lane->tries = 0;
		lane->next_ns = now_ns + (uint64_t)(w->options.pause_s * 1e9);
	} else if (++lane->tries > TRIES) {
		log__error("an incident of process %d is not kept (%s): %s", incident->pid, incident->why, err.text);
		lane->tries = 0;
	} else {
		incident->last_s += 1;
	}
}

/* A slow step that is under way is waited for, up to a bound; what it was is in `activity` once it has ended. */
static bool waits_for_end(struct watch *w, const struct engine_activity *activity)
{
	if (!activity->slow_step_ns || activity->ended)
		return false;
	if (!w->slow_ns)
		w->slow_ns = activity->now_ns;
	/* One second more, so that it is seen what came after. */
	return activity->now_ns - w->slow_ns < (activity->slow_under_way ? PATIENCE_NS : SECOND_NS / 2);
}

/* NULL: none of the sort's rules is met. */
static const struct incident_rule *find_met(struct watch *w, enum sort sort, const struct engine_activity *activity,
					    char *why)
{
	const struct incident_rule *met = NULL;

	for (size_t i = 0; i < w->options.n_rules; i++) {
		const struct incident_rule *rule = &w->options.rules[i];
		char text[INCIDENT_WHY_TEXT];

		/* All are asked, as they remember. */
		if (sort_of(rule) == sort && incident_rule__is_met(rule, activity, &w->memory[i], text) && !met) {
			met = rule;
			memcpy(why, text, sizeof(text));
		}
	}
	return met;
}

/* Seconds before now that are to be kept: what led to a step is before its beginning, and to a pause before that. */
static double seconds_of(const struct watch *w, const struct incident_rule *met, const struct engine_activity *activity)
{
	uint64_t more_ns = met->kind == INCIDENT_STEP ? activity->now_ns - activity->slow_begin_ns : met->hold_ns;

	return w->options.last_s + (double)more_ns / 1e9;
}

static void look_for(struct incidents *all, struct watch *w, enum sort sort, const struct engine_activity *activity)
{
	struct lane *lane = &w->lanes[sort];
	char why[INCIDENT_WHY_TEXT] = "";
	const struct incident_rule *met = find_met(w, sort, activity, why);

	if (!met)
		return;
	if (met->kind == INCIDENT_STEP)
		engine__forgive_slow(all->engine, w->target);
	if (lane->tries || activity->now_ns < lane->next_ns) {
		lane->left_out++;
		return;
	}
	fill(activity, w->caller.uid, seconds_of(w, met, activity), why, &lane->pending);
	keep_pending(all, w, sort, activity->now_ns);
}

static void look_at(struct incidents *all, struct watch *w, const struct engine_activity *activity)
{
	bool waits = waits_for_end(w, activity);

	for (enum sort sort = 0; sort < SORTS; sort++) {
		if (w->lanes[sort].tries)
			keep_pending(all, w, sort, activity->now_ns);
		if (sort == SORT_TIME && waits)
			continue;
		look_for(all, w, sort, activity);
	}
	if (!waits)
		w->slow_ns = 0;
}

static bool has_pending(const struct watch *w)
{
	return w->lanes[SORT_TIME].tries || w->lanes[SORT_GPU].tries;
}

/* The target has been detached. */
static void say_lost(const struct watch *w)
{
	for (enum sort sort = 0; sort < SORTS; sort++) {
		const struct incident *pending = &w->lanes[sort].pending;

		if (w->lanes[sort].tries)
			log__error("an incident of process %d is not kept (%s): it has been detached", pending->pid,
				   pending->why);
	}
}

static bool wants_gpu(const struct watch *w)
{
	for (size_t i = 0; i < w->options.n_rules; i++)
		if (w->options.rules[i].kind == INCIDENT_GPU)
			return true;
	return false;
}

/* Whether it is to be looked at again: a target that has ended still has what it did. */
static bool look_once(struct incidents *all, struct watch *w)
{
	struct engine_activity activity;

	if (engine__activity(all->engine, w->target, wants_gpu(w) ? clock__now_ns() - GPU_SINCE_NS : 0, &activity)) {
		say_lost(w);
		return false;
	}
	look_at(all, w, &activity);
	return !activity.ended || has_pending(w);
}

/* A copy is looked at, as saving takes long; who is added meanwhile goes behind. */
static void look_at_all(struct incidents *all)
{
	for (size_t i = 0; i < all->n && !all->stop;) {
		struct watch w = all->watches[i];
		bool stays;

		pthread_mutex_unlock(&all->lock);
		stays = look_once(all, &w);
		pthread_mutex_lock(&all->lock);
		all->watches[i] = w;
		if (stays)
			i++;
		else
			all->watches[i] = all->watches[--all->n];
	}
}

static void *run(void *context)
{
	struct incidents *all = context;

	pthread_mutex_lock(&all->lock);
	while (!all->stop) {
		clock__wait(&all->wake, &all->lock, all->n ? clock__now_ns() + SECOND_NS : UINT64_MAX);
		look_at_all(all);
	}
	pthread_mutex_unlock(&all->lock);
	return NULL;
}

int incidents__new(struct engine *engine, const char *dir, struct incidents **out, struct so_error *err)
{
	_cleanup_(incidents) struct incidents *all = calloc(1, sizeof(*all));
	int ret;

	if (!all)
		return so_err(err, -ENOMEM, "out of memory");
	all->engine = engine;
	pthread_mutex_init(&all->lock, NULL);
	clock__init_cond(&all->wake);
	ret = incident_store__open(dir, 0, &all->store, err);
	if (ret)
		return ret;
	ret = -pthread_create(&all->thread, NULL, run, all);
	if (ret)
		return so_err(err, ret, "cannot start a thread: %s", strerror(-ret));
	all->runs = true;
	*out = TAKE_PTR(all);
	return 0;
}

void incidents__free(struct incidents *all)
{
	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	all->stop = true;
	pthread_cond_signal(&all->wake);
	pthread_mutex_unlock(&all->lock);
	if (all->runs)
		pthread_join(all->thread, NULL);
	incident_store__close(all->store);
	pthread_cond_destroy(&all->wake);
	pthread_mutex_destroy(&all->lock);
	free(all->watches);
	free(all);
}

void incidents__prepare(const struct incident_options *options, struct attach_options *attach)
{
	for (size_t i = 0; i < options->n_rules; i++) {
		if (options->rules[i].kind != INCIDENT_STEP)
			continue;
		attach->slow_factor = options->rules[i].factor;
		attach->slow_ns = options->rules[i].limit_ns;
	}
}

int incidents__watch(struct incidents *all, uint32_t id, struct caller caller, const struct incident_options *options)
{
	struct watch w = { .target = id, .caller = caller, .options = *options };
	int ret;

	w.options.last_s = options->last_s > 0 ? options->last_s : INCIDENTS_DEFAULT_LAST_S;
	w.options.pause_s = options->pause_s > 0 ? options->pause_s : INCIDENTS_DEFAULT_PAUSE_S;
	if (caller.uid && w.options.pause_s < INCIDENTS_LEAST_PAUSE_S)
		w.options.pause_s = INCIDENTS_LEAST_PAUSE_S;
	pthread_mutex_lock(&all->lock);
	ret = ARRAY_RESERVE(all->watches, all->capacity, all->n + 1) ? -ENOMEM : 0;
	if (!ret)
		all->watches[all->n++] = w;
	pthread_cond_signal(&all->wake);
	pthread_mutex_unlock(&all->lock);
	return ret;
}

int incidents__save(struct incidents *all, uint32_t id, struct caller caller, double last_s, json_t **out,
		    struct so_error *err)
{
	struct incident incident;
	struct engine_activity activity;
	int ret = engine__activity(all->engine, id, 0, &activity);

	if (ret)
		return so_err(err, ret, "there is no target %u", id);
	fill(&activity, caller.uid, last_s > 0 ? last_s : INCIDENTS_DEFAULT_LAST_S, "asked for", &incident);
	ret = keep(all, id, caller, false, &incident, err);
	if (ret)
		return ret;
	*out = incident__json(&incident);
	return *out ? 0 : so_err(err, -ENOMEM, "out of memory");
}

static bool may_see(struct caller caller, const struct incident *incident)
{
	return !caller.uid || caller.uid == incident->uid;
}

json_t *incidents__list(struct incidents *all, struct caller caller)
{
	json_t *list = json_array();
	const struct incident *incidents;
	size_t n;

	pthread_mutex_lock(&all->lock);
	incidents = incident_store__list(all->store, &n);
	for (size_t i = 0; i < n; i++)
		if (may_see(caller, &incidents[i]))
			json_array_append_new(list, incident__json(&incidents[i]));
	pthread_mutex_unlock(&all->lock);
	return list;
}

/* Another user's is as one that is not there. With the lock held. */
static int check(struct incidents *all, struct caller caller, uint32_t id, struct so_error *err)
{
	size_t n;
	const struct incident *incidents = incident_store__list(all->store, &n);

	for (size_t i = 0; i < n; i++)
		if (incidents[i].id == id && may_see(caller, &incidents[i]))
			return 0;
	return so_err(err, -ENOENT, "there is no incident %u", id);
}

int incidents__read(struct incidents *all, struct caller caller, uint32_t id, uint8_t **out, size_t *length,
		    struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&all->lock);
	ret = check(all, caller, id, err) ?: incident_store__read(all->store, id, out, length, err);
	pthread_mutex_unlock(&all->lock);
	return ret;
}

int incidents__remove(struct incidents *all, struct caller caller, uint32_t id, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&all->lock);
	ret = check(all, caller, id, err) ?: incident_store__remove(all->store, id, err);
	pthread_mutex_unlock(&all->lock);
	return ret;
}
