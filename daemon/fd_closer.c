// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/fd_closer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct entry {
	struct entry *next;
	int fd;
	uint64_t tag;
};

struct fd_closer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct entry *first, **end; /* the first one is being closed, and stays until it is */
	bool stop;
};

static void *work(void *context)
{
	struct fd_closer *c = context;

	pthread_mutex_lock(&c->lock);
	while (c->first || !c->stop) {
		struct entry *entry = c->first;

		if (!entry) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		close(entry->fd);
		pthread_mutex_lock(&c->lock);
		c->first = entry->next;
		if (!c->first)
			c->end = &c->first;
		free(entry);
		pthread_cond_broadcast(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int fd_closer__new(struct fd_closer **out)
{
	struct fd_closer *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->end = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	ret = -pthread_create(&c->thread, NULL, work, c);
	if (ret) {
		pthread_cond_destroy(&c->changed);
		pthread_mutex_destroy(&c->lock);
		free(c);
		return ret;
	}
	pthread_setname_np(c->thread, "closer");
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
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static bool has(const struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	const struct entry *entry = c->first;

	while (entry && (entry->tag ^ tag) & mask)
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

void fd_closer__wait(struct fd_closer *c, uint64_t tag, uint64_t mask)
{
	pthread_mutex_lock(&c->lock);
	while (has(c, tag, mask))
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

void fd_closer__free(struct fd_closer *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
