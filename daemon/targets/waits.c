// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/waits_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "stakeout/array.h"

/* A thread that ran on while its memory was read is looked at again at once, so often. */
#define MAX_ATTEMPTS 3
/* An answer that comes so soon after another needs no update of its own. */
#define FRESH_NS 20000000ull
/* A drain may come 50 times a second; each of these asks the kernel side for every thread. */
#define SETTLE_NS 1000000000ull
/* What the kernel side knows of threads that nobody asks for any more is thrown out as often. */
#define SWEEP_NS 30000000000ull
/*
 * Time between two looks. Going through the threads is to take 1 % of a CPU at most; with the catching of stacks it may
 * be 4 %, half of it the helper's, but for that no less than two looks a second are made.
 */
#define MEAN_NS         (1000000000ull / WAITS_RATE_HZ)
#define READING_SHARE   100
#define LOOKING_SHARE   50
#define MAX_CATCHING_NS (10 * MEAN_NS)

int waits__new(const struct waits_parts *parts, struct waits **out)
{
	struct waits *w = calloc(1, sizeof(*w));
	int ret = w ? waiting_threads__new(&w->threads) : -ENOMEM;

	if (ret) {
		free(w);
		return ret;
	}
	w->parts = *parts;
	pthread_mutex_init(&w->look_lock, NULL);
	*out = w;
	return 0;
}

void waits__free(struct waits *w)
{
	if (!w)
		return;
	waiting_threads__free(w->threads);
	thread_looks__close(w->looks);
	pthread_mutex_destroy(&w->look_lock);
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

struct watch_list {
	const struct waits *waits;
	struct looked_process *processes;
	size_t n, capacity;
};

static void add_to_watch(void *context, struct process *p)
{
	struct watch_list *list = context;

	const struct target *t = waits__target_of(list->waits, p);

	if (t && p->run && !ARRAY_RESERVE(list->processes, list->capacity, list->n + 1))
		list->processes[list->n++] = (struct looked_process){ p->tgid, (uint32_t)(t->wall_since_ns >> 10) };
}

static int compare_processes(const void *a, const void *b)
{
	const struct looked_process *x = a, *y = b;

	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

/* With look_lock held. Time that is not looked at is missing in what is said of waits. */
static void say(struct waits *w, int error)
{
	if (error && !w->failing)
		log__error("the threads of watched processes cannot be looked at: %s", strerror(-error));
	w->failing = error != 0;
}

/* With look_lock held. Returns how many processes there are to look at. */
static size_t choose_processes(struct waits *w)
{
	struct watch_list list = { .waits = w };
	bool loaded;
	int ret = 0;

	pthread_mutex_lock(w->parts.lock);
	loaded = w->looks;
	if (loaded)
		process_table__each(w->parts.processes, SO_MAX_SLOTS, add_to_watch, &list);
	pthread_mutex_unlock(w->parts.lock);
	if (list.n)
		qsort(list.processes, list.n, sizeof(list.processes[0]), compare_processes);
	if (loaded)
		ret = thread_looks__watch(w->looks, list.processes, list.n);
	if (ret)
		say(w, ret);
	free(list.processes);
	return ret ? 0 : list.n;
}

static void count_look(struct waits *w, uint64_t began_ns)
{
	struct target *t;

	pthread_mutex_lock(w->parts.lock);
	w->look_before_ns = w->last_look_ns;
	w->last_look_ns = began_ns;
	TARGETS_EACH(t, w->parts.targets)
	{
		if (!t->info.wall || t->info.state != TARGET_SAMPLING || began_ns < t->wall_since_ns)
			continue;
		t->looks++;
		t->looked_ns = began_ns;
	}
	pthread_mutex_unlock(w->parts.lock);
}

/* Between two looks, where they cost little. */
static uint64_t pace_ns(const struct waits *w)
{
	const struct target *t;
	bool timed = false;

	pthread_mutex_lock(w->parts.lock);
	TARGETS_EACH(t, w->parts.targets)
	timed |= t->info.wall && t->info.timed && t->info.state == TARGET_SAMPLING && !t->view;
	pthread_mutex_unlock(w->parts.lock);
	return timed ? 1000000000ull / WAITS_TIMED_HZ : MEAN_NS;
}

/* By what looks take of a CPU: a first one, which has every stack to catch, is not to put off the second for long. */
static uint64_t until_next(struct waits *w, uint64_t read_ns, uint64_t all_ns)
{
	uint64_t ns, pace = pace_ns(w);

	w->cost_ns = (3 * w->cost_ns + all_ns) / 4;
	ns = w->cost_ns * LOOKING_SHARE;
	ns = ns < MAX_CATCHING_NS ? ns : MAX_CATCHING_NS;
	ns = ns > pace ? ns : pace;
	return ns > read_ns * READING_SHARE ? ns : read_ns * READING_SHARE;
}

static void sweep(struct waits *w, uint64_t now_ns)
{
	if (now_ns < w->next_sweep_ns)
		return;
	thread_looks__sweep(w->looks, now_ns - SWEEP_NS);
	w->next_sweep_ns = now_ns + SWEEP_NS;
}

static uint64_t look_all(struct waits *w)
{
	uint64_t began_ns = clock__now_ns(), began_cpu_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;
	struct look_outcome outcome = { .moved = 1 };

	if (!choose_processes(w)) {
		user_unwind__done();
		return MEAN_NS;
	}
	for (unsigned i = 0; outcome.moved && i < MAX_ATTEMPTS; i++)
		waits__look_once(w, true, &outcome);
	user_unwind__pause();
	sweep(w, began_ns);
	took_ns = clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - began_cpu_ns;
	say(w, outcome.error);
	if (!outcome.error)
		count_look(w, began_ns);
	return until_next(w, outcome.read_ns, took_ns);
}

uint64_t waits__look(struct waits *w)
{
	uint64_t ns;

	pthread_mutex_lock(&w->look_lock);
	ns = look_all(w);
	pthread_mutex_unlock(&w->look_lock);
	return ns;
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

/* When it was seen last, by a look or, where the kernel side was told to forget it, by its last record. */
static uint64_t last_seen(const struct waits *w, const struct waiting_thread *thread, struct so_looked *known)
{
	if (thread_looks__find(w->looks, thread->tid, known) && known->started_ns == thread->started_ns)
		return known->at_ns;
	known->switches = thread->switches + 1;
	return thread->seen_ns;
}

/*
 * Not with what the kernel side knows of a look that is still being taken in. A process that executes another program
 * is not looked at until its mappings are read. since_ns: a thread that was not met from then on has ended. now_ns: or
 * when the target ended; what the kernel side knows may be later.
 */
static void settle_thread(struct waits *w, struct target *t, struct waiting_thread *thread, uint64_t since_ns,
			  uint64_t now_ns)
{
	const struct process *p = process_table__find(w->parts.processes, (pid_t)thread->tgid);
	struct so_looked known;
	uint64_t seen_ns;

	seen_ns = last_seen(w, thread, &known);
	if (seen_ns < since_ns && (!p || p->gone || p->run)) {
		waiting_threads__end(w->threads, t, thread, seen_ns);
		thread_looks__forget(w->looks, thread->tid);
		return;
	}
	if (known.switches != thread->switches)
		return;
	waiting_thread__went_on(t, thread, seen_ns < now_ns ? seen_ns : now_ns);
	/* Where it has run since, its next look takes back what was too much. */
	if (thread->state == WAITING_WAITS && now_ns < seen_ns + 2 * MEAN_NS)
		waiting_thread__went_on(t, thread, now_ns);
}

/* One look may miss a thread that is there: the kernel's iterator stops at one that ends while it stands there. */
static void settle_living(void *context, struct target *t, struct waiting_thread *thread)
{
	struct waits *w = context;

	settle_thread(w, t, thread, w->look_before_ns, clock__now_ns());
	/* One that waits on since before its interpreter was found is in no record again. */
	if (!thread->ended)
		thread_namer__seen(w->parts.namer, t, (pid_t)thread->tgid, thread->tid, thread->comm);
}

/* With the engine's lock. */
static void settle(struct waits *w)
{
	if (!w->looks)
		return;
	waiting_threads__each(w->threads, w->parts.targets, settle_living, w);
	waiting_threads__sweep(w->threads, w->parts.targets);
}

void waits__tick(struct waits *w)
{
	uint64_t now_ns = clock__now_ns();

	if (now_ns < w->next_settle_ns)
		return;
	settle(w);
	w->next_settle_ns = now_ns + SETTLE_NS;
}

void waits__update(struct waits *w)
{
	struct look_outcome outcome = { 0 };

	/* A look that is under way will do. */
	if (!pthread_mutex_trylock(&w->look_lock)) {
		if (clock__now_ns() - w->last_update_ns >= FRESH_NS && choose_processes(w)) {
			waits__look_once(w, false, &outcome);
			w->last_update_ns = clock__now_ns();
		}
		pthread_mutex_unlock(&w->look_lock);
	}
	pthread_mutex_lock(w->parts.lock);
	settle(w);
	pthread_mutex_unlock(w->parts.lock);
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
	settle_thread(e->waits, t, thread, e->waits->last_look_ns, e->now_ns);
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

unsigned waits__hz(const struct target *t)
{
	double seconds = (double)((t->end_ns ?: clock__now_ns()) - t->wall_since_ns) / 1e9;
	double hz = t->wall_since_ns && seconds > 0 ? (double)t->looks / seconds : 0;

	if (t->wall_hz)
		return t->wall_hz;
	return hz < 1 ? 1 : hz > WAITS_TIMED_HZ ? WAITS_TIMED_HZ : (unsigned)(hz + 0.5);
}
