// SPDX-License-Identifier: GPL-2.0-or-later
/* The thread that takes windows, which end together at multiples of their length by the wall clock. */
#include "daemon/history/history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/history/cuda_merge.h"
#include "daemon/history/history_internal.h"
#include "daemon/os/log.h"
#include "daemon/os/proc_info.h"

#define TICK_NS     ((int64_t)1000000000)
#define MAINTAIN_MS 50 /* in each tick in which there is something to merge or to remove */

/* 0: it cannot be read. */
static uint64_t start_ticks(pid_t pid)
{
	struct proc_info info;

	return proc_info__read(pid, &info) ? 0 : info.start_ticks;
}

static void count_lost(struct history *h, uint32_t id, const char *why)
{
	bool first;

	pthread_mutex_lock(&h->lock);
	first = !h->losing;
	h->losing = true;
	h->n_lost++;
	pthread_mutex_unlock(&h->lock);
	/* The store says itself when it is off, and counts the windows into a gap. */
	if (first && !store__problem(h->store, NULL, 0))
		log__error("history: a window of target %u is lost: %s", id, why);
}

static void count_kept(struct history *h)
{
	uint64_t n = 0;

	pthread_mutex_lock(&h->lock);
	if (h->losing)
		n = h->n_lost;
	h->losing = false;
	pthread_mutex_unlock(&h->lock);
	if (n)
		log__info("history: windows are kept again; %" PRIu64 " were lost in all", n);
}

/* The history of a target that hides processes from its viewer is root's. */
static char *labels_of(const struct target_info *info)
{
	struct caller viewer = info->hides ? (struct caller){ 0 } : info->viewer;
	json_auto_t *labels = json_pack("{s:I, s:[I, I], s:i, s:b, s:b}", "uid", (json_int_t)info->uid, "viewer",
					(json_int_t)viewer.uid, (json_int_t)viewer.gid, "rate_hz", (int)info->rate_hz,
					"children", info->children, "kernel", info->kernel);

	return labels ? json_dumps(labels, JSON_COMPACT) : NULL;
}

static int begin_target(struct history *h, struct watched *w)
{
	_cleanup_free_ char *labels = labels_of(&w->info);
	char comm[sizeof(w->info.comm) + 1] = "";
	struct store_target target = { w->pid, w->start_ticks, comm, labels, w->info.uid };

	if (!labels)
		return -ENOMEM;
	memcpy(comm, w->info.comm, sizeof(w->info.comm));
	return store__begin_target(h->store, &target, &w->handle);
}

static int add_watched(struct history *h, const struct watched *w)
{
	int ret = -ENOSPC;

	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; ret && i < ENGINE_MAX_TARGETS; i++) {
		if (h->watched[i].id)
			continue;
		h->watched[i] = *w;
		ret = 0;
	}
	pthread_mutex_unlock(&h->lock);
	return ret;
}

static int write_window(struct history *h, struct watched *w, const struct engine_window *window)
{
	struct store_window add = {
		.begin_ns = window->begin_ns,
		.end_ns = window->end_ns,
		.samples = window->samples,
		.lost = window->lost,
		.profile = window->profile,
		.profile_bytes = window->length,
		.cuda = window->cuda,
		.cuda_valid = true, /* jansson's own */
		.memory = history_memory_take(w),
	};

	/* The samples are not to be lost for it. */
	if (add.cuda && strlen(add.cuda) > STORE_MAX_CUDA_BYTES - 2) {
		log__error("history: a window of target %u lacks its CUDA calls, which take %zu bytes", w->id,
			   strlen(add.cuda));
		add.cuda = NULL;
	}
	/* At a target's end, right after another one. */
	if (window->end_ns <= window->begin_ns && !window->samples && !window->lost && !window->cuda)
		return 0;
	/* The wall clock's steps may be coarser. */
	if (add.end_ns <= add.begin_ns)
		add.end_ns = add.begin_ns + 1;
	return store__add(h->store, w->handle, &add);
}

/* Before a window with such processes is written: the same target goes on, with other rights. It may have ended. */
static int hide(struct history *h, struct watched *w)
{
	w->info.hides = true;
	store__end_target(h->store, w->handle, STORE_END_DETACHED);
	return begin_target(h, w);
}

/* Called with `work` held. *end: STORE_END_OPEN, or there will be no other, whatever came of this one. */
static void take_window(struct history *h, struct watched *w, enum store_end *end)
{
	struct engine_window window = { 0 };
	struct so_error err = { .text = "" };
	int ret;

	/* One that was cut short: what its target has at its end is better than nothing. */
	if (!w->memory.n)
		history_memory_read(h, w);
	ret = engine__window(h->engine, w->id, &window, &err);
	*end = window.exited ? STORE_END_ENDED : ret == -ENOENT || window.last ? STORE_END_DETACHED : STORE_END_OPEN;
	if (ret) {
		count_lost(h, w->id, err.text);
		return;
	}
	if (h->listener.taken)
		h->listener.taken(h->listener.context, w->id, &window);
	ret = window.hides && !w->info.hides ? hide(h, w) : 0;
	ret = ret ?: write_window(h, w, &window);
	free(window.profile);
	free(window.cuda);
	w->end_ns = window.end_ns;
	if (ret)
		count_lost(h, w->id, strerror(-ret));
	else
		count_kept(h);
}

static struct watched watched_at(struct history *h, size_t i)
{
	struct watched w;

	pthread_mutex_lock(&h->lock);
	w = h->watched[i];
	pthread_mutex_unlock(&h->lock);
	return w;
}

static void put_watched(struct history *h, size_t i, const struct watched *w)
{
	pthread_mutex_lock(&h->lock);
	h->watched[i] = *w;
	pthread_mutex_unlock(&h->lock);
}

/* Called with `work` held, which alone frees places. */
static void take_one(struct history *h, size_t i)
{
	struct watched w = watched_at(h, i);
	enum store_end end;

	if (!w.id)
		return;
	take_window(h, &w, &end);
	if (end != STORE_END_OPEN) {
		store__end_target(h->store, w.handle, end);
		engine__end_windows(h->engine, w.id);
		w = (struct watched){ 0 };
	}
	put_watched(h, i, &w);
}

static bool has_ended(struct history *h, uint32_t id)
{
	struct target_info info;

	return engine__info(h->engine, id, &info) || info.state == TARGET_ENDED;
}

/* It would not do to wait until the window ends by the clock. */
static bool is_urgent(struct history *h, uint32_t id)
{
	struct target_info info;

	return engine__info(h->engine, id, &info) || info.state == TARGET_ENDED || info.window_carries;
}

bool history_find(struct history *h, uint32_t id, struct watched *out)
{
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		*out = watched_at(h, i);
		if (out->id == id)
			return true;
	}
	return false;
}

uint32_t history_watched_id(struct history *h, pid_t pid, uint64_t ticks)
{
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		struct watched w = watched_at(h, i);

		if (w.id && w.pid == pid && w.start_ticks == ticks)
			return w.id;
	}
	return 0;
}

/* A process may have been detached a moment ago: its history ends before it goes on. */
static void end_earlier(struct history *h, pid_t pid)
{
	pthread_mutex_lock(&h->work);
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		struct watched w = watched_at(h, i);

		if (w.id && w.pid == pid && has_ended(h, w.id))
			take_one(h, i);
	}
	pthread_mutex_unlock(&h->work);
}

void history__watch(struct history *h, uint32_t id)
{
	struct so_error err = { .text = "" };
	struct watched w = { .id = id };
	int ret = engine__begin_windows(h->engine, id, true, &err);

	if (ret) {
		count_lost(h, id, err.text);
		return;
	}
	if (h->listener.watched)
		h->listener.watched(h->listener.context, id);
	ret = engine__info(h->engine, id, &w.info);
	if (!ret) {
		end_earlier(h, w.info.pid);
		w.pid = w.info.pid;
		w.start_ticks = start_ticks(w.pid);
	}
	ret = ret ?: begin_target(h, &w);
	if (!ret)
		history_memory_read(h, &w);
	if (!ret) {
		ret = add_watched(h, &w);
		if (ret)
			store__end_target(h->store, w.handle, STORE_END_ENDED);
	}
	if (ret) {
		engine__end_windows(h->engine, id);
		count_lost(h, id, strerror(-ret));
	}
}

static void round_of_memory(struct history *h)
{
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		struct watched w;

		pthread_mutex_lock(&h->work);
		w = watched_at(h, i);
		if (w.id && history_memory_due(&w)) {
			history_memory_read(h, &w);
			put_watched(h, i, &w);
		}
		pthread_mutex_unlock(&h->work);
	}
}

/* due: the windows of all targets; otherwise those that cannot wait. */
static void round_of_windows(struct history *h, bool due)
{
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		uint32_t id = watched_at(h, i).id;

		if (!id || (!due && !is_urgent(h, id)))
			continue;
		pthread_mutex_lock(&h->work);
		take_one(h, i);
		pthread_mutex_unlock(&h->work);
	}
}

static int64_t wall_ns(void)
{
	return (int64_t)clock__read_ns(CLOCK_REALTIME);
}

void history_flush(struct history *h, pid_t pid, uint64_t ticks, int64_t to_ns)
{
	pthread_mutex_lock(&h->work);
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		struct watched w = watched_at(h, i);

		if (w.id && w.pid == pid && w.start_ticks == ticks && to_ns > w.end_ns &&
		    wall_ns() - w.end_ns >= HISTORY_MIN_WINDOW_S * STORE_SECOND_NS)
			take_one(h, i);
	}
	pthread_mutex_unlock(&h->work);
}

/* Until the next window ends, or for a tick. True: the thread must end. */
static bool wait_for_tick(struct history *h)
{
	int64_t left_ns = h->window_ns - wall_ns() % h->window_ns;
	uint64_t at_ns = clock__now_ns() + (uint64_t)(left_ns < TICK_NS ? left_ns : TICK_NS);
	bool stop;

	pthread_mutex_lock(&h->lock);
	while (!h->stop && clock__wait(&h->wake, &h->lock, at_ns) != ETIMEDOUT)
		;
	stop = h->stop;
	pthread_mutex_unlock(&h->lock);
	return stop;
}

static void *run(void *context)
{
	struct history *h = context;
	int64_t window = wall_ns() / h->window_ns, next;
	bool stop, more = false;

	do {
		stop = wait_for_tick(h);
		next = wall_ns() / h->window_ns;
		round_of_memory(h);
		round_of_windows(h, stop || next != window);
		if (!stop && (more || next != window))
			more = store__maintain(h->store, MAINTAIN_MS) > 0;
		window = next;
	} while (!stop);
	return NULL;
}

static int start(struct history *h, struct so_error *err)
{
	int ret;

	pthread_mutex_init(&h->reading, NULL);
	pthread_mutex_init(&h->work, NULL);
	pthread_mutex_init(&h->lock, NULL);
	clock__init_cond(&h->wake);
	ret = pthread_create(&h->thread, NULL, run, h);
	if (!ret)
		return 0;
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	pthread_mutex_destroy(&h->work);
	pthread_mutex_destroy(&h->reading);
	return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
}

int history__new(struct engine *engine, const struct history_options *options, struct history **out,
		 struct so_error *err)
{
	struct store_options so = {
		.dir = options->dir,
		.retain_size_bytes = options->retain_size_bytes,
		.retain_age_ns = options->retain_age_ns,
		.merge_cuda = cuda_merge__store,
	};
	_cleanup_free_ struct history *h = calloc(1, sizeof(*h));
	_cleanup_(store) struct store *store = NULL;
	_cleanup_free_ char *dir = strdup(options->dir);
	int ret;

	if (!h || !dir)
		return so_err(err, -ENOMEM, "out of memory");
	ret = store__open(&so, &store, err);
	if (ret)
		return ret;
	h->engine = engine;
	h->store = store;
	h->dir = dir;
	h->listener = options->listener;
	h->retain_size_bytes = options->retain_size_bytes ?: STORE_DEFAULT_SIZE_BYTES;
	h->retain_age_ns = options->retain_age_ns ?: STORE_DEFAULT_AGE_NS;
	h->window_ns = (options->window_s ?: HISTORY_DEFAULT_WINDOW_S) * STORE_SECOND_NS;
	ret = start(h, err);
	if (ret)
		return ret;
	TAKE_PTR(store);
	TAKE_PTR(dir);
	*out = TAKE_PTR(h);
	return 0;
}

void history__free(struct history *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		if (h->watched[i].id)
			engine__end_windows(h->engine, h->watched[i].id);
	}
	store__close(h->store);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	pthread_mutex_destroy(&h->work);
	pthread_mutex_destroy(&h->reading);
	free(h->dir);
	free(h);
}
