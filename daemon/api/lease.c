// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/lease.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/os/clock.h"

struct lease {
	uint32_t id;
	double renewed_s; /* CLOCK_MONOTONIC */
	bool unlimited;   /* has no duration that ends it */
	bool ended;       /* the end was seen, and renewed the lease once more */
};

struct leases {
	struct engine *engine;
	double ended_idle_s, running_idle_s, tick_s;
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below; never held while the engine works */
	pthread_cond_t wake;
	bool stop;
	struct lease *all;
	size_t n, capacity;
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static struct lease *find(struct leases *leases, uint32_t id)
{
	for (size_t i = 0; i < leases->n; i++)
		if (leases->all[i].id == id)
			return &leases->all[i];
	return NULL;
}

enum verdict {
	LEASE_KEEP,
	LEASE_STOP,
	LEASE_FORGET,
};

/* The end of a recording renews its lease once more. */
static enum verdict judge(struct leases *leases, uint32_t id, bool ended)
{
	enum verdict verdict = LEASE_KEEP;
	struct lease *lease;
	double idle_s;

	pthread_mutex_lock(&leases->lock);
	lease = find(leases, id);
	if (lease) {
		if (ended && !lease->ended)
			lease->renewed_s = now_s();
		lease->ended = ended;
		idle_s = now_s() - lease->renewed_s;
		if (ended && idle_s > leases->ended_idle_s)
			verdict = LEASE_FORGET;
		else if (!ended && lease->unlimited && idle_s > leases->running_idle_s)
			verdict = LEASE_STOP;
	}
	pthread_mutex_unlock(&leases->lock);
	return verdict;
}

static void review(struct leases *leases, uint32_t id)
{
	struct target_info info;

	if (engine__info(leases->engine, id, &info)) {
		leases__remove(leases, id);
		return;
	}
	switch (judge(leases, id, info.state == TARGET_ENDED)) {
	case LEASE_KEEP:
		break;
	case LEASE_STOP:
		engine__stop(leases->engine, id, NULL);
		break;
	case LEASE_FORGET:
		engine__detach(leases->engine, id, NULL);
		leases__remove(leases, id);
		break;
	}
}

/* Sleeps for one tick; true when the thread must end. The lock is held. */
static bool sleep_tick(struct leases *leases)
{
	double at = now_s() + leases->tick_s;
	struct timespec ts = { .tv_sec = (time_t)at, .tv_nsec = (long)((at - (double)(time_t)at) * 1e9) };

	while (!leases->stop && pthread_cond_timedwait(&leases->wake, &leases->lock, &ts) != ETIMEDOUT)
		;
	return leases->stop;
}

/* The ids are copied, so that requests can renew leases while the engine works on another target. */
static void *run(void *arg)
{
	struct leases *leases = arg;

	pthread_mutex_lock(&leases->lock);
	while (!sleep_tick(leases)) {
		size_t n = leases->n;
		_cleanup_free_ uint32_t *ids = n ? malloc(n * sizeof(*ids)) : NULL;

		if (!ids)
			continue;
		for (size_t i = 0; i < n; i++)
			ids[i] = leases->all[i].id;
		pthread_mutex_unlock(&leases->lock);
		for (size_t i = 0; i < n; i++)
			review(leases, ids[i]);
		pthread_mutex_lock(&leases->lock);
	}
	pthread_mutex_unlock(&leases->lock);
	return NULL;
}

int leases__new(struct engine *engine, double ended_idle_s, double running_idle_s, struct leases **out,
		struct so_error *err)
{
	double shortest_s = ended_idle_s < running_idle_s ? ended_idle_s : running_idle_s;
	_cleanup_free_ struct leases *leases = calloc(1, sizeof(*leases));
	int ret;

	if (!leases)
		return so_err(err, -ENOMEM, "out of memory");
	leases->engine = engine;
	leases->ended_idle_s = ended_idle_s;
	leases->running_idle_s = running_idle_s;
	leases->tick_s = shortest_s / 4 < 1 ? shortest_s / 4 : 1;
	pthread_mutex_init(&leases->lock, NULL);
	clock__init_cond(&leases->wake);
	ret = pthread_create(&leases->thread, NULL, run, leases);
	if (ret) {
		pthread_cond_destroy(&leases->wake);
		pthread_mutex_destroy(&leases->lock);
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	}
	*out = TAKE_PTR(leases);
	return 0;
}

int leases__add(struct leases *leases, uint32_t id, bool unlimited)
{
	int ret = 0;

	pthread_mutex_lock(&leases->lock);
	if (leases->n == leases->capacity) {
		size_t capacity = leases->capacity ? 2 * leases->capacity : 16;
		struct lease *all = reallocarray(leases->all, capacity, sizeof(*all));

		if (all) {
			leases->all = all;
			leases->capacity = capacity;
		} else {
			ret = -ENOMEM;
		}
	}
	if (!ret)
		leases->all[leases->n++] = (struct lease){ .id = id, .renewed_s = now_s(), .unlimited = unlimited };
	pthread_mutex_unlock(&leases->lock);
	return ret;
}

void leases__touch(struct leases *leases, uint32_t id)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = find(leases, id);
	if (lease)
		lease->renewed_s = now_s();
	pthread_mutex_unlock(&leases->lock);
}

void leases__remove(struct leases *leases, uint32_t id)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = find(leases, id);
	if (lease)
		*lease = leases->all[--leases->n];
	pthread_mutex_unlock(&leases->lock);
}

void leases__free(struct leases *leases)
{
	if (!leases)
		return;
	pthread_mutex_lock(&leases->lock);
	leases->stop = true;
	pthread_cond_signal(&leases->wake);
	pthread_mutex_unlock(&leases->lock);
	pthread_join(leases->thread, NULL);
	pthread_cond_destroy(&leases->wake);
	pthread_mutex_destroy(&leases->lock);
	free(leases->all);
	free(leases);
}
