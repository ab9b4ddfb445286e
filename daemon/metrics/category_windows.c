// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A target of which windows are taken stays in its slot of the engine until the last one is taken, and one that lives
 * holds what its window has counted. So a thread looks each second for targets that ended and for windows that nobody
 * asks for any more. It sleeps as long as no windows are taken.
 */
#include "daemon/metrics/category_windows.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/os/clock.h"
#include "daemon/os/log.h"

#define TICK_NS ((uint64_t)1000000000)

struct window {
	uint32_t id;       /* 0: the place is free */
	uint64_t taken_ns; /* CLOCK_MONOTONIC; 0: not yet */
};

struct category_windows {
	struct engine *engine;
	struct category_counters *counters;
	pthread_t thread;
	pthread_mutex_t
		lock; /* guards all below; held while windows are taken, since they are for one consumer at a time */
	pthread_cond_t wake;
	bool stop, failing; /* failing: the last window was not counted, which has been said */
	struct window windows[ENGINE_MAX_TARGETS];
	size_t n;
	uint32_t last_id; /* of the target whose window was taken last for a call */
};

/* id 0: a free place. */
static struct window *find(struct category_windows *w, uint32_t id)
{
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++)
		if (w->windows[i].id == id)
			return &w->windows[i];
	return NULL;
}

static void end(struct category_windows *w, struct window *window)
{
	engine__end_windows(w->engine, window->id);
	*window = (struct window){ 0 };
	w->n--;
}

static void say(struct category_windows *w, uint32_t id, int error, const char *why)
{
	if (error && !w->failing)
		log__error("metrics: a window of target %u has no categories: %s", id, why);
	w->failing = error != 0;
}

static void take(struct category_windows *w, struct window *window)
{
	struct engine_window taken = { 0 };
	struct so_error err = { .text = "" };
	int ret = engine__window(w->engine, window->id, &taken, &err);
	bool last = ret == -ENOENT || taken.last;

	if (!ret)
		ret = category_counters__add(w->counters, window->id, taken.profile, taken.length, &err);
	say(w, window->id, ret, err.text);
	free(taken.profile);
	window->taken_ns = clock__now_ns();
	if (last)
		end(w, window);
}

/* NULL: its last window is taken, or there is nobody to take windows for. */
static struct window *begin(struct category_windows *w, const struct target_info *target)
{
	int64_t ns[CATEGORY_COUNTERS_MAX];
	struct window *window = find(w, target->id);

	if (window || category_counters__get(w->counters, target->id, ns))
		return window;
	window = find(w, 0);
	if (!window || engine__begin_windows(w->engine, target->id, false, NULL))
		return NULL;
	if (category_counters__begin(w->counters, target->id)) {
		engine__end_windows(w->engine, target->id);
		return NULL;
	}
	window->id = target->id;
	w->n++;
	pthread_cond_signal(&w->wake);
	return window;
}

static bool is_due(const struct window *window, const struct target_info *target, uint64_t now_ns)
{
	return !window->taken_ns || target->state == TARGET_ENDED ||
	       now_ns - window->taken_ns >= CATEGORY_WINDOWS_MIN_NS;
}

void category_windows__refresh(struct category_windows *w, const struct target_info *targets, size_t n)
{
	uint64_t until_ns = clock__now_ns() + CATEGORY_WINDOWS_PATIENCE_NS;
	size_t first = 0;

	pthread_mutex_lock(&w->lock);
	while (first < n && targets[first].id != w->last_id)
		first++;
	/* Behind the last one, and around; `first` is n where that one is gone. */
	for (size_t i = 1; i <= n; i++) {
		const struct target_info *target = &targets[(first + i) % n];
		uint64_t now_ns = clock__now_ns();
		struct window *window;

		if (now_ns >= until_ns)
			break;
		window = target->keep && target->state != TARGET_ATTACHING ? begin(w, target) : NULL;
		if (!window || !is_due(window, target, now_ns))
			continue;
		take(w, window);
		w->last_id = target->id;
	}
	pthread_mutex_unlock(&w->lock);
}

/*
 * Of a target that was detached nobody can see the counters. Of the idle ones only one is taken, since a scrape waits
 * meanwhile.
 */
static void look(struct category_windows *w, uint64_t now_ns)
{
	bool patient = true;

	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		struct window *window = &w->windows[i];
		struct target_info info;

		if (!window->id)
			continue;
		if (engine__info(w->engine, window->id, &info)) {
			end(w, window);
		} else if (info.state == TARGET_ENDED || info.window_carries) {
			take(w, window);
		} else if (patient && now_ns - window->taken_ns >= CATEGORY_WINDOWS_IDLE_NS) {
			take(w, window);
			patient = false;
		}
	}
}

static void *run(void *context)
{
	struct category_windows *w = context;

	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		uint64_t at_ns = clock__now_ns() + TICK_NS;
		struct timespec at = { (time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000) };
		int ret = 0;

		if (!w->n)
			pthread_cond_wait(&w->wake, &w->lock);
		while (w->n && !w->stop && ret != ETIMEDOUT)
			ret = pthread_cond_timedwait(&w->wake, &w->lock, &at);
		if (!w->stop)
			look(w, clock__now_ns());
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void free_state(struct category_windows *w)
{
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int category_windows__new(struct engine *engine, struct category_counters *counters, struct category_windows **out,
			  struct so_error *err)
{
	struct category_windows *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return so_err(err, -ENOMEM, "out of memory");
	w->engine = engine;
	w->counters = counters;
	pthread_mutex_init(&w->lock, NULL);
	clock__init_cond(&w->wake);
	ret = pthread_create(&w->thread, NULL, run, w);
	if (ret) {
		free_state(w);
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	}
	*out = w;
	return 0;
}

void category_windows__free(struct category_windows *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++)
		if (w->windows[i].id)
			end(w, &w->windows[i]);
	free_state(w);
}
