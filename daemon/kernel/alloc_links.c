// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/alloc_links.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/fd_closer.h"
#include "daemon/os/uprobe_links.h"
#include "stakeout/alloc_abi.h"

#define END_NS 1000000000ull

struct alloc_link {
	struct alloc_links *owner;
	struct alloc_link *next; /* in the queue */
	pid_t pid;
	int file; /* -1, once it is made or refused */
	uint64_t *offsets, *cookies;
	uint32_t n;
	uint64_t asked_ns, done_ns; /* 0: it is in progress */
	int ret;
	int fds[2]; /* -1: none */
	bool freed; /* nobody has it any more; it goes once it is not in progress */
};

struct alloc_links {
	struct alloc_programs programs;
	struct fd_closer *closer;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct alloc_link *queue; /* oldest first; the first one is being made */
	bool stop, stopped;
};

/* In the thread, without the lock. */

static int make(int program, uint32_t type, bool at_return, const struct alloc_link *link, const uint64_t *offsets,
		const uint64_t *cookies, uint32_t n, int *fd)
{
	char path[64];
	int ret;

	/* Through the descriptor: another mount namespace may hide the path. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), link->file);
	ret = uprobe_links__make(program, type, at_return, path, offsets, cookies, n, link->pid);
	if (ret < 0)
		return ret;
	*fd = ret;
	return 0;
}

/* What frees has no return that matters, and what throws must keep its own. */
static int make_returns(const struct alloc_programs *programs, struct alloc_link *link)
{
	_cleanup_free_ uint64_t *offsets = calloc(link->n, sizeof(*offsets));
	_cleanup_free_ uint64_t *cookies = calloc(link->n, sizeof(*cookies));
	uint32_t n = 0;

	if (!offsets || !cookies)
		return -ENOMEM;
	for (uint32_t i = 0; i < link->n; i++) {
		uint64_t cookie = link->cookies[i];

		if (SO_ALLOC_COOKIE_SHAPE(cookie) == SO_ALLOC_FREE || (cookie & SO_ALLOC_THROWS))
			continue;
		offsets[n] = link->offsets[i];
		cookies[n++] = cookie;
	}
	return n ? make(programs->leave, UPROBE_LINKS_MULTI, true, link, offsets, cookies, n, &link->fds[1]) : 0;
}

static int make_all(const struct alloc_programs *programs, struct alloc_link *link)
{
	int ret;

	if (programs->session >= 0)
		return make(programs->session, UPROBE_LINKS_SESSION, false, link, link->offsets, link->cookies, link->n,
			    &link->fds[0]);
	/* Returns first: an entry that is seen has its return seen. */
	ret = make_returns(programs, link);
	return ret
		       ?: make(programs->enter, UPROBE_LINKS_MULTI, false, link, link->offsets, link->cookies, link->n,
			       &link->fds[0]);
}

static void release(struct alloc_link *link)
{
	for (int i = 0; i < 2; i++)
		if (link->fds[i] >= 0)
			fd_closer__give(link->owner->closer, link->fds[i], (uint64_t)link->pid);
	if (link->file >= 0)
		close(link->file);
	free(link->offsets);
	free(link->cookies);
	free(link);
}

/* With the lock, which is let go while it is made. What nobody wants any more is not begun. */
static void work_on(struct alloc_links *links, struct alloc_link *link)
{
	bool wanted = !link->freed && !links->stop;
	int ret;

	pthread_mutex_unlock(&links->lock);
	ret = wanted ? make_all(&links->programs, link) : -ECANCELED;
	/* That may take its time as well. */
	close(link->file);
	pthread_mutex_lock(&links->lock);
	links->queue = link->next;
	link->file = -1;
	link->ret = ret;
	link->done_ns = clock__now_ns();
	if (link->freed)
		release(link);
	pthread_cond_broadcast(&links->changed);
}

static void *work(void *context)
{
	struct alloc_links *links = context;

	pthread_mutex_lock(&links->lock);
	while (!links->stop || links->queue) {
		if (links->queue)
			work_on(links, links->queue);
		else
			pthread_cond_wait(&links->changed, &links->lock);
	}
	links->stopped = true;
	pthread_cond_broadcast(&links->changed);
	pthread_mutex_unlock(&links->lock);
	return NULL;
}

/* Of all of them. */

static void destroy(struct alloc_links *links)
{
	fd_closer__free(links->closer);
	pthread_cond_destroy(&links->changed);
	pthread_mutex_destroy(&links->lock);
	free(links);
}

int alloc_links__new(const struct alloc_programs *programs, struct alloc_links **out)
{
	struct alloc_links *links = calloc(1, sizeof(*links));
	int ret;

	if (!links)
		return -ENOMEM;
	links->programs = *programs;
	pthread_mutex_init(&links->lock, NULL);
	clock__init_cond(&links->changed);
	ret = fd_closer__new(&links->closer);
	ret = ret ?: -pthread_create(&links->thread, NULL, work, links);
	if (ret) {
		destroy(links);
		return ret;
	}
	pthread_setname_np(links->thread, "alloc links");
	*out = links;
	return 0;
}

void alloc_links__free(struct alloc_links *links)
{
	uint64_t until_ns = clock__now_ns() + END_NS;
	bool stopped;

	if (!links)
		return;
	pthread_mutex_lock(&links->lock);
	links->stop = true;
	pthread_cond_broadcast(&links->changed);
	while (!links->stopped && clock__wait(&links->changed, &links->lock, until_ns) != ETIMEDOUT)
		;
	stopped = links->stopped;
	pthread_mutex_unlock(&links->lock);
	if (!stopped) {
		pthread_detach(links->thread);
		return;
	}
	pthread_join(links->thread, NULL);
	destroy(links);
}

/* In the order in which they come from there to here. */
bool alloc_links__going(struct alloc_links *links, pid_t pid)
{
	bool going = false;

	pthread_mutex_lock(&links->lock);
	for (const struct alloc_link *link = links->queue; link; link = link->next)
		going |= link->pid == pid && link->freed;
	pthread_mutex_unlock(&links->lock);
	return going || fd_closer__has(links->closer, (uint64_t)pid, UINT64_MAX);
}

/* Of one. */

static uint64_t *copy(const uint64_t *from, uint32_t n)
{
	uint64_t *to = malloc(n * sizeof(*to));

	if (to)
		memcpy(to, from, n * sizeof(*to));
	return to;
}

int alloc_links__ask(struct alloc_links *links, pid_t pid, int fd, const struct alloc_places *places,
		     struct alloc_link **out)
{
	struct alloc_link *link = malloc(sizeof(*link)), **at;

	if (!link)
		return -ENOMEM;
	*link = (struct alloc_link){ .owner = links,
				     .pid = pid,
				     .file = fcntl(fd, F_DUPFD_CLOEXEC, 0),
				     .offsets = copy(places->offsets, places->n),
				     .cookies = copy(places->cookies, places->n),
				     .n = places->n,
				     .asked_ns = clock__now_ns(),
				     .fds = { -1, -1 } };
	if (link->file < 0 || !link->offsets || !link->cookies) {
		int ret = link->file < 0 ? -EMFILE : -ENOMEM;

		release(link);
		return ret;
	}
	pthread_mutex_lock(&links->lock);
	for (at = &links->queue; *at; at = &(*at)->next)
		;
	*at = link;
	pthread_cond_broadcast(&links->changed);
	pthread_mutex_unlock(&links->lock);
	*out = link;
	return 0;
}

int alloc_link__state(struct alloc_link *link)
{
	int ret;

	pthread_mutex_lock(&link->owner->lock);
	ret = link->done_ns ? link->ret : -EINPROGRESS;
	pthread_mutex_unlock(&link->owner->lock);
	return ret;
}

int alloc_link__wait(struct alloc_link *link, uint64_t until_ns)
{
	struct alloc_links *links = link->owner;
	int ret;

	pthread_mutex_lock(&links->lock);
	while (!link->done_ns && clock__wait(&links->changed, &links->lock, until_ns) != ETIMEDOUT)
		;
	ret = link->done_ns ? link->ret : -ETIMEDOUT;
	pthread_mutex_unlock(&links->lock);
	return ret;
}

uint64_t alloc_link__waited_ns(struct alloc_link *link)
{
	uint64_t done_ns;

	pthread_mutex_lock(&link->owner->lock);
	done_ns = link->done_ns;
	pthread_mutex_unlock(&link->owner->lock);
	return (done_ns ?: clock__now_ns()) - link->asked_ns;
}

void alloc_link__free(struct alloc_link *link)
{
	struct alloc_links *links;

	if (!link)
		return;
	links = link->owner;
	pthread_mutex_lock(&links->lock);
	if (link->done_ns)
		release(link);
	else
		link->freed = true;
	pthread_mutex_unlock(&links->lock);
}
