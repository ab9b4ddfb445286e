// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/fd_closer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"

#define MAX_THREADS 64
#define LOOK_NS     2000000 /* between two looks at what threads are waiting for */

struct entry {
	struct entry *next;
	int fd;
	uint64_t tag;
	pid_t closer; /* the thread that closes it; 0: none does yet */
};

struct fd_closer {
	pthread_t threads[MAX_THREADS]; /* as many as were ever busy at once */
	unsigned n_threads, n_entries;
	pthread_mutex_t lock;
	pthread_cond_t given, closed; /* the threads wait for the one, who asks for the other */
	struct entry *first, **end;   /* oldest first; they stay until they are closed */
	bool stop;
};

static struct entry *next_of(struct fd_closer *c)
{
	struct entry *entry = c->first;

	while (entry && entry->closer)
		entry = entry->next;
	return entry;
}

static void remove_entry(struct fd_closer *c, struct entry *entry)
{
	struct entry **at = &c->first;

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	if (!*at)
		c->end = at;
	c->n_entries--;
	free(entry);
}

static void *work(void *context)
{
	struct fd_closer *c = context;

	struct entry *entry;

	pthread_mutex_lock(&c->lock);
	while ((entry = next_of(c)) || !c->stop) {
		if (!entry) {
			pthread_cond_wait(&c->given, &c->lock);
			continue;
		}
		entry->closer = gettid();
		pthread_mutex_unlock(&c->lock);
		close(entry->fd);
		pthread_mutex_lock(&c->lock);
		remove_entry(c, entry);
		pthread_cond_broadcast(&c->closed);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int add_thread(struct fd_closer *c)
{
	int ret = -pthread_create(&c->threads[c->n_threads], NULL, work, c);

	if (!ret)
		pthread_setname_np(c->threads[c->n_threads++], "closer");
	return ret;
}

int fd_closer__new(struct fd_closer **out)
{
	struct fd_closer *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->end = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->given, NULL);
	clock__init_cond(&c->closed);
	pthread_mutex_lock(&c->lock);
	ret = add_thread(c);
	pthread_mutex_unlock(&c->lock);
	if (ret) {
		pthread_cond_destroy(&c->given);
		pthread_cond_destroy(&c->closed);
		pthread_mutex_destroy(&c->lock);
		free(c);
		return ret;
	}
	*out = c;
	return 0;
}

void fd_closer__give(struct fd_closer *c, int fd, uint64_t tag)
{
	struct entry *entry = malloc(sizeof(*entry));

	if (!entry) {
		close(fd);
		return;
	}
	*entry = (struct entry){ .fd = fd, .tag = tag };
	pthread_mutex_lock(&c->lock);
	*c->end = entry;
	c->end = &entry->next;
	/* Without another thread it has to wait for its turn. */
	if (++c->n_entries > c->n_threads && c->n_threads < MAX_THREADS)
		add_thread(c);
	pthread_cond_signal(&c->given);
	pthread_mutex_unlock(&c->lock);
}

/*
 * Whether its probes are gone, by what its thread waits for. The last thing that uprobe_unregister_sync() does
 * (kernel/events/uprobes.c), when they are: wait for calls under way whose return is probed. A thread that sleeps in
 * one is waited for until the kernel gives up its claim, 0.1 s after it came (RI_TIMER_PERIOD).
 */
static bool is_lingering(struct entry *entry)
{
	char path[64], where[128];
	ssize_t n;
	int fd;

	if (!entry->closer)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", entry->closer);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, where, sizeof(where) - 1);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return false;
	where[n] = 0;
	return strstr(where, "srcu");
}

static bool has(const struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	struct entry *entry = c->first;

	while (entry && ((entry->tag ^ tag) & mask || is_lingering(entry)))
		entry = entry->next;
	return entry != NULL;
}

bool fd_closer__has(struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	bool found;

	pthread_mutex_lock(&c->lock);
	found = has(c, tag, mask);
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* Until some are closed, or for LOOK_NS: nobody reports that one lingers. */
static void wait_for_some(struct fd_closer *c)
{
	clock__wait(&c->closed, &c->lock, clock__now_ns() + LOOK_NS);
}

void fd_closer__wait(struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	pthread_mutex_lock(&c->lock);
	while (has(c, tag, mask))
		wait_for_some(c);
	pthread_mutex_unlock(&c->lock);
}

static bool is_open(const struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	const struct entry *entry = c->first;

	while (entry && (entry->tag ^ tag) & mask)
		entry = entry->next;
	return entry != NULL;
}

void fd_closer__drain(struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	pthread_mutex_lock(&c->lock);
	while (is_open(c, tag, mask))
		pthread_cond_wait(&c->closed, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

void fd_closer__free(struct fd_closer *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->given);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	pthread_cond_destroy(&c->given);
	pthread_cond_destroy(&c->closed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
