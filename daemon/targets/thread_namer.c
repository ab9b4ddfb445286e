// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/thread_namer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/os/memory_lock.h"

/* For the threads that are asked for at once. */
#define MAX_READING_NS 200000000ull

/* What threads are known by lies close together, and each read costs a hand-over: whole pages, which are kept. */
#define PAGES 64

struct page {
	uint64_t address; /* 0: none */
	uint8_t bytes[SO_PAGE_BYTES];
};

struct reading {
	pid_t tgid;
	uint64_t until_ns;
	struct page pages[PAGES];
};

/* NULL: it cannot be read, or there is no time left. */
static const struct page *page_of(struct reading *reading, uint64_t address)
{
	uint64_t start = address & ~(SO_PAGE_BYTES - 1ull);
	struct page *page = &reading->pages[start / SO_PAGE_BYTES * 0x9e3779b97f4a7c15ull >> 32 & (PAGES - 1)];

	if (page->address == start && start)
		return page;
	page->address = 0;
	if (clock__now_ns() >= reading->until_ns ||
	    memory_lock__read(reading->tgid, start, page->bytes, sizeof(page->bytes)) != sizeof(page->bytes))
		return NULL;
	page->address = start;
	return page;
}

static bool read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	for (size_t done = 0, n; done < bytes; done += n) {
		const struct page *page = page_of(context, address + done);
		size_t at = (address + done) % SO_PAGE_BYTES;

		if (!page)
			return false;
		n = bytes - done < SO_PAGE_BYTES - at ? bytes - done : SO_PAGE_BYTES - at;
		memcpy((char *)to + done, page->bytes + at, n);
	}
	return true;
}

size_t thread_namer__read(pid_t tgid, const struct python_process *python, struct thread_to_name *threads, size_t n,
			  uint64_t most_ns)
{
	_cleanup_free_ struct reading *reading = calloc(1, sizeof(*reading));
	const struct foreign_memory memory = { read_process, reading };
	size_t i = 0;

	if (!reading)
		return 0;
	reading->tgid = tgid;
	reading->until_ns = clock__now_ns() + most_ns;
	for (; i < n; i++) {
		if (threads[i].fsbase) {
			int ret = python_thread__name(&memory, python, threads[i].fsbase, threads[i].text);

			threads[i].unread = ret && ret != -ENOENT;
		}
		/* This one may be cut short. */
		if (clock__now_ns() >= reading->until_ns) {
			threads[i].text[0] = '\0';
			break;
		}
	}
	return i;
}

void thread_namer__seen(struct thread_namer *namer, struct target *t, pid_t tgid, uint32_t tid, const char comm[16])
{
	/* The main thread is not started by the module threading. */
	if (!t->python.versions[0] || (pid_t)tid == tgid || namer->refused)
		return;
	if (!thread_names__seen(&t->thread_names, tgid, tid, comm, clock__now_ns()) || namer->wanted)
		return;
	namer->wanted = true;
	scan_queue__wake(namer->scans);
}

struct asking {
	uint32_t target;
	pid_t tgid;
	unsigned execs;
	struct python_process python;
	struct thread_to_name threads[THREAD_NAMES_AT_ONCE];
	size_t n;
};

/* What they hold is not known any more, or not yet. */
static void put_off(struct thread_names *names, const struct asking *a)
{
	for (size_t i = 0; i < a->n; i++)
		thread_names__set(names, a->tgid, a->threads[i].tid, NULL, clock__now_ns());
}

static int find_threads(struct thread_namer *namer, struct asking *a)
{
	_cleanup_free_ struct so_thread *list = NULL;
	struct so_error why;
	size_t n = 0;
	int ret = thread_list__read(*namer->list, a->tgid, &list, &n, &why);

	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; !a->threads[i].fsbase && k < n; k++)
			if (list[k].tid == a->threads[i].tid)
				a->threads[i].fsbase = list[k].fsbase;
	return ret;
}

/* Chooses some threads of one process. False: there are none to be asked. */
static bool choose(struct thread_namer *namer, struct asking *a)
{
	uint32_t tids[THREAD_NAMES_AT_ONCE];
	uint64_t now_ns = clock__now_ns();
	const struct process *p;
	struct target *t;

	TARGETS_EACH(t, namer->targets)
	{
		a->n = t->of ? 0 : thread_names__due(&t->thread_names, now_ns, &a->tgid, tids);
		for (size_t i = 0; i < a->n; i++)
			a->threads[i] = (struct thread_to_name){ .tid = tids[i] };
		if (!a->n)
			continue;
		p = process_table__find(namer->processes, a->tgid);
		if (!p || p->gone || !p->python || find_threads(namer, a)) {
			put_off(&t->thread_names, a);
			continue;
		}
		a->target = t->id;
		a->execs = p->execs;
		a->python = *p->python;
		return true;
	}
	return false;
}

/*
 * n: how many were asked; the others still are to be. The process may be another by now, or its program one that its
 * target's user may not read.
 */
static void keep(struct thread_namer *namer, const struct asking *a, size_t n)
{
	const struct process *p = process_table__find(namer->processes, a->tgid);
	struct target *t = targets__find(namer->targets, a->target);

	if (!t)
		return;
	if (!p || p->execs != a->execs || !process__is_readable(p)) {
		put_off(&t->thread_names, a);
		return;
	}
	/* One that takes all the time there is comes after the others. */
	if (!n)
		thread_names__set(&t->thread_names, a->tgid, a->threads[0].tid, NULL, clock__now_ns());
	for (size_t i = 0; i < n; i++) {
		const struct thread_to_name *thread = &a->threads[i];

		if (thread->unread)
			thread_names__unread(&t->thread_names, a->tgid, thread->tid, clock__now_ns());
		else
			thread_names__set(&t->thread_names, a->tgid, thread->tid, thread->fsbase ? thread->text : NULL,
					  clock__now_ns());
	}
}

/* With the lock, which is let go meanwhile. */
static bool load(struct thread_namer *namer)
{
	struct so_error why = { "" };

	if (!*namer->list && thread_list__load(namer->list, namer->lock, &why)) {
		log__info("threads have no names of Python's: %s", why.text);
		namer->refused = true;
	}
	return *namer->list;
}

bool thread_namer__work(struct thread_namer *namer)
{
	_cleanup_free_ struct asking *a = namer->wanted ? calloc(1, sizeof(*a)) : NULL;
	size_t n;

	namer->wanted = false;
	if (!a || !load(namer) || !choose(namer, a))
		return false;
	/* There may be more. */
	namer->wanted = true;
	pthread_mutex_unlock(namer->lock);
	n = thread_namer__read(a->tgid, &a->python, a->threads, a->n, MAX_READING_NS);
	pthread_mutex_lock(namer->lock);
	keep(namer, a, n);
	return true;
}
