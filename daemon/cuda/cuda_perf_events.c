// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_perf_events.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stakeout/array.h"
#include "stakeout/live_thread.h"

#define AT_RETURN   1     /* bit 0 of config: /sys/bus/event_source/devices/uprobe/format/retprobe */
#define PAUSE_US    20000 /* in which other processes may open their events, a hundred or so */
#define CLOSED_HERE 8     /* so many may be closed before leaving */
#define COMPARED    1024  /* a process's, all libraries and kinds together, are some 400 */

struct event {
	int fd; /* of the link, which holds the perf event */
	bool at_return;
	uint64_t cookie, offset;
	uint64_t heat_opened, heat_given; /* hits by then */
};

struct cuda_perf_events {
	int enter_fd, leave_fd, heat_fd;
	uint32_t type;
	pthread_t closer;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock: */
	struct event *pending;
	size_t n_pending, capacity;
	unsigned openers; /* go first: the kernel has one lock for opening and closing */
	bool closing;     /* one event, which is not among the pending ones any more */
	bool stop;
};

struct cuda_perf_set {
	struct cuda_perf_events *of;
	struct event *events;
	size_t n;
};

static int read_type(uint32_t *type)
{
	_cleanup_fclose_ FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");

	return f && fscanf(f, "%u", type) == 1 ? 0 : -ENOTSUP;
}

/* Closing. */

/* Hits of the probe since it was first hit. */
static uint64_t read_heat(const struct cuda_perf_events *e, uint64_t cookie)
{
	uint64_t hits;

	return bpf_map_lookup_elem(e->heat_fd, &cookie, &hits) ? 0 : hits;
}

/* They begin anew when an entry is closed. */
static uint64_t since(uint64_t hits, uint64_t before)
{
	return hits > before ? hits - before : 0;
}

/* What is hit now goes before what was hit while it was wanted. */
static bool is_hotter(const struct event *a, uint64_t heat_a, const struct event *b, uint64_t heat_b)
{
	uint64_t now_a = since(heat_a, a->heat_given), now_b = since(heat_b, b->heat_given);

	return now_a != now_b ? now_a > now_b : since(heat_a, a->heat_opened) > since(heat_b, b->heat_opened);
}

/* The order stays: an entry and its return are beside each other, and only both together free the function. */
static void remove_pending(struct cuda_perf_events *e, size_t at)
{
	memmove(&e->pending[at], &e->pending[at + 1], (--e->n_pending - at) * sizeof(*e->pending));
}

/* Of the latest: earlier ones are of processes that are gone, or were cold for as long as it took to get that far. */
static struct event take_hottest(struct cuda_perf_events *e)
{
	size_t first = e->n_pending > COMPARED ? e->n_pending - COMPARED : 0, best = first;
	uint64_t best_heat = read_heat(e, e->pending[first].cookie);
	struct event taken;

	for (size_t i = first + 1; i < e->n_pending; i++) {
		uint64_t heat = read_heat(e, e->pending[i].cookie);

		if (is_hotter(&e->pending[i], heat, &e->pending[best], best_heat)) {
			best = i;
			best_heat = heat;
		}
	}
	taken = e->pending[best];
	remove_pending(e, best);
	return taken;
}

static void *closer(void *context)
{
	struct cuda_perf_events *e = context;

	pthread_mutex_lock(&e->lock);
	while (!e->stop) {
		struct event event;

		if (!e->n_pending || e->openers) {
			pthread_cond_wait(&e->changed, &e->lock);
			continue;
		}
		event = take_hottest(e);
		e->closing = true;
		pthread_mutex_unlock(&e->lock);
		close(event.fd);
		if (!event.at_return)
			bpf_map_delete_elem(e->heat_fd, &event.cookie);
		pthread_mutex_lock(&e->lock);
		e->closing = false;
		pthread_cond_broadcast(&e->changed);
		pthread_mutex_unlock(&e->lock);
		usleep(PAUSE_US);
		pthread_mutex_lock(&e->lock);
	}
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

static int by_fd(const void *a, const void *b)
{
	return ((const struct event *)a)->fd - ((const struct event *)b)->fd;
}

static void close_others(unsigned from, unsigned to, unsigned kept)
{
	if (kept >= from && kept <= to) {
		if (kept > from)
			close_range(from, kept - 1, 0);
		from = kept + 1;
	}
	if (from <= to)
		close_range(from, to, 0);
}

/* A child closes the pending events, so that this process ends at once. After fork() it may only make system calls. */
static void hand_over(struct cuda_perf_events *e)
{
	unsigned from = 0;

	qsort(e->pending, e->n_pending, sizeof(*e->pending), by_fd);
	if (fork() != 0)
		return;
	for (size_t i = 0; i < e->n_pending; i++) {
		unsigned fd = (unsigned)e->pending[i].fd;

		if (fd > from)
			close_others(from, fd - 1, (unsigned)e->heat_fd);
		from = fd + 1;
	}
	close_others(from, ~0u, (unsigned)e->heat_fd);
	while (e->n_pending) {
		close(take_hottest(e).fd);
		usleep(PAUSE_US);
	}
	_exit(0);
}

/* Making. */

int cuda_perf_events__new(int enter_fd, int leave_fd, int heat_fd, struct cuda_perf_events **out)
{
	struct cuda_perf_events *e = calloc(1, sizeof(*e));
	sigset_t all, before;
	int ret;

	if (!e)
		return -ENOMEM;
	e->enter_fd = enter_fd;
	e->leave_fd = leave_fd;
	e->heat_fd = heat_fd;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	ret = read_type(&e->type);
	if (!ret) {
		/* Signals are for the other threads. */
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &before);
		ret = -pthread_create(&e->closer, NULL, closer, e);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (ret) {
		free(e);
		return ret;
	}
	*out = e;
	return 0;
}

void cuda_perf_events__free(struct cuda_perf_events *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->stop = true;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->closer, NULL);
	if (e->n_pending > CLOSED_HERE)
		hand_over(e);
	for (size_t i = 0; i < e->n_pending; i++)
		close(e->pending[i].fd);
	free(e->pending);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

size_t cuda_perf_events__pending(struct cuda_perf_events *e)
{
	size_t n;

	pthread_mutex_lock(&e->lock);
	n = e->n_pending + e->closing;
	pthread_mutex_unlock(&e->lock);
	return n;
}

/* Opening. */

static int open_event(const struct cuda_perf_events *e, pid_t pid, const char *path, struct event *event)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = e->type,
					.config = event->at_return ? AT_RETURN : 0,
					.uprobe_path = (uintptr_t)path,
					.probe_offset = event->offset };
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = event->cookie);
	_cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	int link;

	if (fd < 0)
		return -errno;
	link = bpf_link_create(event->at_return ? e->leave_fd : e->enter_fd, fd, BPF_PERF_EVENT, &opts);
	if (link < 0)
		return link;
	event->fd = link;
	return 0;
}

/* One that was given up and is still there, if it is the same probe. */
static bool take_over(struct cuda_perf_events *e, struct event *wanted)
{
	for (size_t i = 0; i < e->n_pending; i++) {
		const struct event *p = &e->pending[i];

		if (p->cookie != wanted->cookie || p->offset != wanted->offset || p->at_return != wanted->at_return)
			continue;
		wanted->fd = p->fd;
		remove_pending(e, i);
		return true;
	}
	return false;
}

static int attach_one(struct cuda_perf_set *set, pid_t pid, const char *path, struct event event)
{
	int ret = take_over(set->of, &event) ? 0 : open_event(set->of, pid, path, &event);

	if (ret)
		return ret;
	event.heat_opened = read_heat(set->of, event.cookie);
	set->events[set->n++] = event;
	return 0;
}

static int attach_all(struct cuda_perf_set *set, pid_t pid, const char *path, const uint64_t *offsets,
		      const uint64_t *cookies, uint32_t count)
{
	int ret = 0;

	/* Returns first: an entry that is seen has its return seen. */
	for (uint32_t i = 0; !ret && i < 2 * count; i++) {
		struct event event = { .at_return = i % 2 == 0, .cookie = cookies[i / 2], .offset = offsets[i / 2] };

		ret = attach_one(set, pid, path, event);
	}
	return ret;
}

int cuda_perf_events__attach(struct cuda_perf_events *e, pid_t pid, const char *path, const uint64_t *offsets,
			     const uint64_t *cookies, uint32_t count, struct cuda_perf_set **out)
{
	_cleanup_(cuda_perf_set) struct cuda_perf_set *set = calloc(1, sizeof(*set));
	int ret;

	if (!set)
		return -ENOMEM;
	set->of = e;
	set->events = calloc(2 * (size_t)count + 1, sizeof(*set->events));
	if (!set->events)
		return -ENOMEM;
	pthread_mutex_lock(&e->lock);
	e->openers++;
	while (e->closing)
		pthread_cond_wait(&e->changed, &e->lock);
	/* Under the lock, which nobody but the closer and the caller's other threads wants. */
	ret = attach_all(set, live_thread__of(pid), path, offsets, cookies, count);
	e->openers--;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	if (!ret)
		*out = TAKE_PTR(set);
	return ret;
}

void cuda_perf_set__free(struct cuda_perf_set *set)
{
	struct cuda_perf_events *e;

	if (!set)
		return;
	e = set->of;
	pthread_mutex_lock(&e->lock);
	if (set->n && ARRAY_RESERVE(e->pending, e->capacity, e->n_pending + set->n)) {
		/* No memory: slowly then. */
		for (size_t i = 0; i < set->n; i++)
			close(set->events[i].fd);
	} else {
		for (size_t i = 0; i < set->n; i++) {
			set->events[i].heat_given = read_heat(e, set->events[i].cookie);
			e->pending[e->n_pending++] = set->events[i];
		}
	}
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	free(set->events);
	free(set);
}
