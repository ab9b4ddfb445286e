// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/memory_lock.h"
#include "daemon/targets/waiting_threads.h"
#include "stakeout/array.h"

/* A thread that ran on while its memory was read is looked at again at once, so often. */
#define MAX_ATTEMPTS 3
/* Stacks that one look catches, some 0.1 ms each: of more threads that have all run, these are chosen at random. */
#define MAX_CAUGHT 128
/*
 * Time between two looks. Going through the threads is to take 1 % of a CPU at most; with the catching of stacks it may
 * be 4 %, half of it the helper's, but no fewer than five looks a second are made for that.
 */
#define MEAN_NS         (1000000000ull / WAITS_RATE_HZ)
#define READING_SHARE   100
#define LOOKING_SHARE   50
#define MAX_CATCHING_NS (4 * MEAN_NS)

struct waits {
	struct waits_parts parts;
	struct thread_looks *looks; /* NULL: not loaded yet */
	struct waiting_threads *threads;
	uint64_t last_look_ns; /* when the last one began */
	struct waits_figures figures;
};

/* One thread that was found waiting. */
struct found {
	const struct so_look_record *record;
	size_t memory; /* index of what was caught of it */
	bool caught, moved;
};

struct look {
	uint8_t *bytes;
	size_t length;
	struct found *found; /* those whose stack is to be caught, by process as the records are */
	size_t n_found, capacity;
	size_t n_stacks, first; /* records with a stack; of these MAX_CAUGHT from here on are chosen, in a circle */
	struct thread_catch_request *requests; /* one for each of found */
	struct thread_memory *memory;
};

int waits__new(const struct waits_parts *parts, struct waits **out)
{
	struct waits *w = calloc(1, sizeof(*w));
	int ret = w ? waiting_threads__new(&w->threads) : -ENOMEM;

	if (ret) {
		free(w);
		return ret;
	}
	w->parts = *parts;
	*out = w;
	return 0;
}

void waits__free(struct waits *w)
{
	if (!w)
		return;
	waiting_threads__free(w->threads);
	thread_looks__close(w->looks);
	free(w);
}

int waits__load(struct waits *w, struct so_error *err)
{
	struct thread_looks *looks;
	bool loaded;
	int ret;

	pthread_mutex_lock(w->parts.lock);
	loaded = w->looks;
	pthread_mutex_unlock(w->parts.lock);
	if (loaded)
		return 0;
	ret = thread_looks__open(&looks, err);
	if (ret)
		return ret;
	pthread_mutex_lock(w->parts.lock);
	if (!w->looks)
		w->looks = TAKE_PTR(looks);
	pthread_mutex_unlock(w->parts.lock);
	thread_looks__close(looks);
	return 0;
}

static struct target *target_of(const struct waits *w, const struct process *p)
{
	struct target *t = p && !p->gone ? targets__of_slot(w->parts.targets, p->kernel.slot) : NULL;

	return t && t->info.wall && t->info.state == TARGET_SAMPLING ? t : NULL;
}

struct watch_list {
	const struct waits *waits;
	pid_t *tgids;
	size_t n, capacity;
};

static void add_to_watch(void *context, struct process *p)
{
	struct watch_list *list = context;

	if (target_of(list->waits, p) && p->run && !ARRAY_RESERVE(list->tgids, list->capacity, list->n + 1))
		list->tgids[list->n++] = p->tgid;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns how many processes there are to look at. */
static size_t choose_processes(struct waits *w)
{
	struct watch_list list = { .waits = w };
	bool loaded;

	pthread_mutex_lock(w->parts.lock);
	loaded = w->looks;
	if (loaded)
		process_table__each(w->parts.processes, SO_MAX_SLOTS, add_to_watch, &list);
	pthread_mutex_unlock(w->parts.lock);
	if (list.n)
		qsort(list.tgids, list.n, sizeof(list.tgids[0]), compare_pids);
	if (loaded && thread_looks__watch(w->looks, list.tgids, list.n))
		list.n = 0;
	free(list.tgids);
	return list.n;
}

static bool has_stack(const struct so_look_record *r)
{
	return r->bytes == sizeof(*r) && r->thread.user;
}

static bool is_chosen(const struct look *l, size_t i)
{
	return (i + l->n_stacks - l->first) % l->n_stacks < MAX_CAUGHT;
}

/* With the lock. Mappings that changed are to be read first: scans take longer than a look. */
static void ask_for(struct waits *w, struct look *l, const struct so_look_record *r)
{
	struct process *p = process_table__find(w->parts.processes, r->tgid);

	if (!target_of(w, p) || ARRAY_RESERVE(l->found, l->capacity, l->n_found + 1))
		return;
	if (r->exec_pages != p->kernel.exec_pages)
		scan_queue__request(w->parts.scans, p->tgid, r->exec_pages);
	user_unwind__request(p, &r->thread, &l->requests[l->n_found]);
	l->found[l->n_found++] = (struct found){ .record = r };
}

/* With the lock. Its time is counted, and its stack is wanted at the next look, where it may not have run until then. */
static void put_off(struct waits *w, struct target *t, const struct so_look_record *r)
{
	thread_looks__forget(w->looks, r->thread.tid);
	if (t)
		waiting_threads__found(w->threads, t, r, NULL);
}

/* With the lock. */
static void ask_for_chosen(struct waits *w, struct look *l)
{
	const struct so_look_record *r;
	size_t at = 0, i = 0;

	while ((r = thread_looks__next(l->bytes, l->length, &at))) {
		struct target *t;

		if (!has_stack(r))
			continue;
		if (is_chosen(l, i++)) {
			ask_for(w, l, r);
			continue;
		}
		t = target_of(w, process_table__find(w->parts.processes, r->tgid));
		put_off(w, t, r);
	}
}

static int choose_threads(struct waits *w, struct look *l)
{
	const struct so_look_record *r;
	size_t at = 0, n = 0;

	while ((r = thread_looks__next(l->bytes, l->length, &at)))
		n += has_stack(r);
	if (!n)
		return 0;
	l->n_stacks = n;
	l->first = (size_t)random() % n;
	l->requests = calloc(n < MAX_CAUGHT ? n : MAX_CAUGHT, sizeof(*l->requests));
	l->memory = calloc(MEMORY_LOCK_CATCH, sizeof(*l->memory));
	if (!l->requests || !l->memory)
		return -ENOMEM;
	pthread_mutex_lock(w->parts.lock);
	ask_for_chosen(w, l);
	pthread_mutex_unlock(w->parts.lock);
	return 0;
}

static int compare_tids(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	uint32_t i = x->record->thread.tid, j = y->record->thread.tid;

	return i < j ? -1 : i > j;
}

/* Whether each still is where it was found: it has not run since. Those that have not come again have ended. */
static void check_again(struct waits *w, struct found *found, size_t n)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	const struct so_look_record *r;
	size_t length = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		found[i].moved = true;
	if (thread_looks__read(w->looks, SO_LOOK_AGAIN, &bytes, &length))
		return;
	while ((r = thread_looks__next(bytes, length, &at))) {
		struct found key = { .record = r }, *f = bsearch(&key, found, n, sizeof(*found), compare_tids);

		if (f && r->thread.switches == f->record->thread.switches && !r->thread.on_cpu)
			f->moved = false;
	}
}

/* Where its code is in mappings that are being read, a later look will do better. */
static bool is_premature(const struct waits *w, const struct process *p, const struct stack *stack)
{
	return (stack->record.cause == SO_TRUNC_NO_MAPPING || stack->record.cause == SO_TRUNC_MAPS_PENDING) &&
	       (p->scanning || scan_queue__has(w->parts.scans, p->tgid));
}

/* With the lock. */
static void take_stack(struct waits *w, const struct found *f, const struct thread_memory *memory, bool readable)
{
	struct process *p = process_table__find(w->parts.processes, f->record->tgid);
	struct target *t = target_of(w, p);
	struct stack *stack = NULL;

	if (!t)
		return;
	if (readable && !user_unwind__caught(w->parts.unwind, p, &f->record->thread, memory, &stack) &&
	    !is_premature(w, p, stack)) {
		w->figures.caught++;
		waiting_threads__found(w->threads, t, f->record, stack);
	} else {
		put_off(w, t, f->record);
	}
	stack__unref(stack);
}

static bool is_readable(struct waits *w, pid_t tgid)
{
	const struct process *p = process_table__find(w->parts.processes, tgid);

	return p && process__is_readable(p);
}

/* Those of one process, MEMORY_LOCK_CATCH at most. Returns how many ran on meanwhile. */
static size_t catch_some(struct waits *w, struct look *l, size_t first, size_t n)
{
	size_t caught = memory_lock__catch(&l->requests[first], l->memory, n), moved = 0;
	struct found *found = &l->found[first];
	bool readable;

	check_again(w, found, n);
	pthread_mutex_lock(w->parts.lock);
	readable = is_readable(w, found->record->tgid);
	for (size_t i = 0; i < n; i++) {
		if (!found[i].moved)
			take_stack(w, &found[i], &l->memory[i], readable && i < caught);
		else
			thread_looks__forget(w->looks, found[i].record->thread.tid);
		moved += found[i].moved;
	}
	pthread_mutex_unlock(w->parts.lock);
	return moved;
}

/* The requests are in the order of the threads that were found: both are sorted together. */
static int sort_found(struct look *l)
{
	_cleanup_free_ struct thread_catch_request *sorted = calloc(l->n_found + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_found; i++)
		l->found[i].memory = i;
	for (size_t i = 0, n; i < l->n_found; i += n) {
		for (n = 1; i + n < l->n_found && l->found[i + n].record->tgid == l->found[i].record->tgid; n++)
			;
		qsort(&l->found[i], n, sizeof(l->found[0]), compare_tids);
	}
	for (size_t i = 0; i < l->n_found; i++)
		sorted[i] = l->requests[l->found[i].memory];
	memcpy(l->requests, sorted, l->n_found * sizeof(*sorted));
	return 0;
}

static size_t catch_all(struct waits *w, struct look *l)
{
	size_t moved = 0;

	if (sort_found(l))
		return 0;
	for (size_t i = 0, n; i < l->n_found; i += n) {
		for (n = 1; n < MEMORY_LOCK_CATCH && i + n < l->n_found &&
			    l->found[i + n].record->tgid == l->found[i].record->tgid;
		     n++)
			;
		moved += catch_some(w, l, i, n);
	}
	return moved;
}

/* Those without a stack of their own: they run, or stand where they stood, or have no user stack. */
static void take_others(struct waits *w, const struct look *l)
{
	const struct so_look_record *r;
	size_t at = 0;

	pthread_mutex_lock(w->parts.lock);
	while ((r = thread_looks__next(l->bytes, l->length, &at))) {
		struct target *t = target_of(w, process_table__find(w->parts.processes, r->tgid));

		if (t && !has_stack(r))
			waiting_threads__found(w->threads, t, r, NULL);
	}
	pthread_mutex_unlock(w->parts.lock);
}

static void release(struct look *l)
{
	free(l->bytes);
	free(l->found);
	free(l->requests);
	free(l->memory);
}

/* Returns how many threads ran on while they were looked at. */
static size_t look_once(struct waits *w, uint64_t *read_ns)
{
	uint64_t began_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID);
	struct look l = { 0 };
	size_t moved = 0;
	int ret = thread_looks__read(w->looks, SO_LOOK_CHANGED, &l.bytes, &l.length);

	*read_ns += clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (!ret) {
		take_others(w, &l);
		if (!choose_threads(w, &l))
			moved = catch_all(w, &l);
	}
	release(&l);
	return moved;
}

static void count_look(struct waits *w, uint64_t began_ns, uint64_t took_ns, size_t moved)
{
	struct target *t;

	pthread_mutex_lock(w->parts.lock);
	w->last_look_ns = began_ns;
	w->figures.looks++;
	w->figures.moved += moved;
	w->figures.ns += took_ns;
	TARGETS_EACH(t, w->parts.targets)
	t->looks += t->info.wall && t->info.state == TARGET_SAMPLING;
	pthread_mutex_unlock(w->parts.lock);
}

/* By what a look took of a CPU. */
static uint64_t until_next(uint64_t read_ns, uint64_t all_ns)
{
	uint64_t ns = all_ns * LOOKING_SHARE;

	ns = ns < MAX_CATCHING_NS ? ns : MAX_CATCHING_NS;
	ns = ns > MEAN_NS ? ns : MEAN_NS;
	return ns > read_ns * READING_SHARE ? ns : read_ns * READING_SHARE;
}

uint64_t waits__look(struct waits *w)
{
	uint64_t began_ns = clock__now_ns(), began_cpu_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID), read_ns = 0,
		 took_ns;
	size_t moved = 1;

	if (!choose_processes(w))
		return MEAN_NS;
	for (unsigned i = 0; moved && i < MAX_ATTEMPTS; i++)
		moved = look_once(w, &read_ns);
	took_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - began_cpu_ns;
	count_look(w, began_ns, took_ns, moved);
	return until_next(read_ns, took_ns);
}

bool waits__wanted(const struct waits *w)
{
	const struct target *t;

	TARGETS_EACH(t, w->parts.targets)
	{
		if (t->info.wall && t->info.state == TARGET_SAMPLING && !t->view)
			return true;
	}
	return false;
}

/*
 * Not with what the kernel side knows of a look that is still being taken in. A process that executes another program is
 * not looked at until its mappings are read.
 */
static void settle_thread(void *context, struct target *t, struct waiting_thread *thread)
{
	struct waits *w = context;
	const struct process *p = process_table__find(w->parts.processes, thread->tgid);
	struct so_looked known;

	if (!thread_looks__find(w->looks, thread->tid, &known) || known.started_ns != thread->started_ns ||
	    known.switches != thread->switches)
		return;
	waiting_thread__went_on(t, thread, known.at_ns);
	if (known.at_ns < w->last_look_ns && (!p || p->gone || p->run)) {
		waiting_threads__end(w->threads, t, thread, known.at_ns);
		thread_looks__forget(w->looks, thread->tid);
		return;
	}
	/* Where it has run since, its next look takes back what was too much. */
	waiting_threads__goes_on(w->threads, t, thread, clock__now_ns());
}

void waits__settle(struct waits *w)
{
	if (!w->looks)
		return;
	waiting_threads__each(w->threads, w->parts.targets, settle_thread, w);
	waiting_threads__sweep(w->threads, w->parts.targets);
}

struct ending {
	struct waits *waits;
	const struct target *target;
	uint64_t now_ns;
};

static void end_thread(void *context, struct target *t, struct waiting_thread *thread)
{
	struct ending *e = context;

	if (t != e->target)
		return;
	settle_thread(e->waits, t, thread);
	if (!thread->ended)
		waiting_threads__end(e->waits->threads, t, thread, e->now_ns);
	thread_looks__forget(e->waits->looks, thread->tid);
}

void waits__end(struct waits *w, const struct target *t)
{
	struct ending e = { w, t, t->end_ns ?: clock__now_ns() };

	if (!w->looks || !t->info.wall)
		return;
	waiting_threads__each(w->threads, w->parts.targets, end_thread, &e);
	waiting_threads__sweep(w->threads, w->parts.targets);
}

void waits__figures(const struct waits *w, struct waits_figures *out)
{
	*out = w->figures;
}
