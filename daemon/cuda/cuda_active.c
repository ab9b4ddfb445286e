// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_active.h"

#include <math.h>
#include <string.h>

#define CALLS_KEPT       0.9  /* of what was known of a thread, for each time on */
#define WAITS_KEPT       0.97 /* and of what is known of waits */
#define LEAST_CALLS      0.5  /* a thread that has fewer left has stopped making calls, and */
#define MOST_IDLE        20   /* is forgotten when it neither ended a call nor waited in so many times on */
#define MOST             0.95 /* of all calls, that one thread makes */
#define MOST_OTHERS      0.02 /* of all calls, that others make while one waits, if they are said to make none; */
#define LEAST_TIMES      3    /* times on in which it waited: calls come in clumps */
#define LEAST_EXPECTED   20.0 /* calls, that they would have made otherwise, */
#define MOST_OF_EXPECTED 0.1  /* of which so many at most they have */
#define LEAST_KNOWN_NS   1e7
#define MEMORY_NS        10e9
#define UNKNOWN          (-1.0)

/* One during whose waits the others make no calls: had waits been nothing to them, there would have been some. 0: there is none. */
static pid_t waiter(const struct cuda_active *a)
{
	double most = 0;
	pid_t tid = 0;

	for (unsigned i = 0; i < a->n; i++) {
		double others = a->threads[i].others, waited = a->threads[i].waited_ns,
		       expected = a->on_ns > 0 ? a->on_calls * waited / a->on_ns : 0;

		if (waited > most && a->threads[i].times >= LEAST_TIMES && expected >= LEAST_EXPECTED &&
		    others <= MOST_OTHERS * a->on_calls && others <= MOST_OF_EXPECTED * expected) {
			most = waited;
			tid = a->threads[i].tid;
		}
	}
	return tid;
}

/* 0: there is none. */
static pid_t caller(const struct cuda_active *a)
{
	double all = 0, most = 0;
	pid_t tid = 0;

	for (unsigned i = 0; i < a->n; i++) {
		all += a->threads[i].calls;
		if (a->threads[i].calls > most) {
			most = a->threads[i].calls;
			tid = a->threads[i].tid;
		}
	}
	return most >= MOST * all ? tid : waiter(a);
}

static void keep_share(struct cuda_active *a, double ns, double share)
{
	a->known_ns += ns;
	a->active_ns += share * ns;
	if (a->known_ns > MEMORY_NS) {
		a->active_ns *= MEMORY_NS / a->known_ns;
		a->known_ns = MEMORY_NS;
	}
}

double cuda_active__share(struct cuda_active *a, uint64_t now, bool keep, cuda_active_read *read, void *context)
{
	double ns = now > a->looked_ns ? (double)(now - a->looked_ns) : 0, share = UNKNOWN;
	enum cuda_active_told told = CUDA_ACTIVE_NEVER;
	pid_t tid = caller(a);
	struct cuda_active_waits waits = { 0 };

	if (tid)
		told = read(context, tid, now, &waits);
	/* Of a thread that has ended since it is not known, and of one that never could be asked nothing is. */
	if (!a->tid || (told == CUDA_ACTIVE_NEVER && tid != a->tid))
		share = 1;
	else if (told == CUDA_ACTIVE_KNOWN && a->is_known && tid == a->tid && waits.ns >= a->waits.ns)
		share = ns > 0 ? 1 - fmin((double)(waits.ns - a->waits.ns) / ns, 1) : 1;
	if (keep) {
		a->last.ns = a->last.waits = 0;
		if (told == CUDA_ACTIVE_KNOWN && share >= 0 && a->tid) {
			keep_share(a, ns, share);
			a->last.ns = share * ns;
			a->last.waits = waits.n > a->waits.n ? (double)(waits.n - a->waits.n) : 0;
		}
		a->looked_ns = now;
		a->tid = told == CUDA_ACTIVE_NEVER ? 0 : tid;
		a->is_known = told == CUDA_ACTIVE_KNOWN;
		a->waits = waits;
	}
	return share;
}

void cuda_active__interrupt(struct cuda_active *a)
{
	a->is_known = false;
	a->on_began_ns = a->on_ended_ns = 0;
}

void cuda_active__change_kinds(struct cuda_active *a)
{
	a->on_ns = a->on_calls = 0;
	a->known_ns = a->active_ns = 0;
	for (unsigned i = 0; i < a->n; i++)
		a->threads[i].waited_ns = a->threads[i].others = a->threads[i].times = 0;
}

double cuda_active__usual(const struct cuda_active *a)
{
	return a->known_ns >= LEAST_KNOWN_NS ? a->active_ns / a->known_ns : UNKNOWN;
}

void cuda_active__begin_on(struct cuda_active *a, uint64_t now, cuda_active_read *read, void *context)
{
	a->on_began_ns = now;
	for (unsigned i = 0; i < a->n; i++)
		a->threads[i].is_known =
			read(context, a->threads[i].tid, now, &a->threads[i].waits) == CUDA_ACTIVE_KNOWN;
}

/* The last one that may give its place to another; CUDA_ACTIVE_THREADS: none waits. */
static unsigned most_waiting(const struct cuda_active *a)
{
	unsigned most = CUDA_ACTIVE_THREADS;

	for (unsigned i = 0; i < a->n; i++) {
		if (a->threads[i].waited_ns > (most < CUDA_ACTIVE_THREADS ? a->threads[most].waited_ns : 0))
			most = i;
	}
	return most;
}

void cuda_active__add_calls(struct cuda_active *a, pid_t tid, double calls)
{
	unsigned waits_most = most_waiting(a), least = waits_most == 0, i;

	for (i = 0; i < a->n && a->threads[i].tid != tid; i++) {
		if (i != waits_most && a->threads[i].calls < a->threads[least].calls)
			least = i;
	}
	if (i < CUDA_ACTIVE_THREADS && i == a->n) {
		memset(&a->threads[a->n++], 0, sizeof(a->threads[0]));
	} else if (i == a->n) {
		if (calls <= 0)
			return;
		/* What it made is not forgotten: else one of very many threads would seem to make most calls. */
		i = least;
		calls += a->threads[i].calls;
		memset(&a->threads[i], 0, sizeof(a->threads[0]));
	}
	a->threads[i].tid = tid;
	a->threads[i].idle = 0;
	a->threads[i].calls += calls;
}

void cuda_active__look_on(struct cuda_active *a, uint64_t now, cuda_active_read *read, void *context)
{
	a->on_ended_ns = a->on_began_ns ? now : 0;
	for (unsigned i = 0; a->on_ended_ns && i < a->n; i++) {
		struct cuda_active_waits waits, *began = &a->threads[i].waits;

		a->threads[i].is_known = a->threads[i].is_known &&
					 read(context, a->threads[i].tid, now, &waits) == CUDA_ACTIVE_KNOWN &&
					 waits.ns >= began->ns && waits.others >= began->others;
		if (a->threads[i].is_known)
			*began = (struct cuda_active_waits){ .ns = waits.ns - began->ns,
							     .others = waits.others - began->others };
	}
}

void cuda_active__end_on(struct cuda_active *a, double calls, double weight)
{
	if (a->on_ended_ns > a->on_began_ns) {
		a->on_ns += (double)(a->on_ended_ns - a->on_began_ns);
		a->on_calls += weight * calls;
	}
	for (unsigned i = 0; a->on_ended_ns && i < a->n; i++) {
		if (!a->threads[i].is_known)
			continue;
		a->threads[i].is_known = false;
		a->threads[i].waited_ns += (double)a->threads[i].waits.ns;
		a->threads[i].others += weight * (double)a->threads[i].waits.others;
		a->threads[i].times += a->threads[i].waits.ns && calls > 0;
		if (a->threads[i].waits.ns)
			a->threads[i].idle = 0;
	}
	a->on_began_ns = a->on_ended_ns = 0;
}

void cuda_active__age(struct cuda_active *a)
{
	a->on_ns *= WAITS_KEPT;
	a->on_calls *= WAITS_KEPT;
	for (unsigned i = 0; i < a->n; i++) {
		a->threads[i].calls *= CALLS_KEPT;
		a->threads[i].waited_ns *= WAITS_KEPT;
		a->threads[i].others *= WAITS_KEPT;
		a->threads[i].times *= WAITS_KEPT;
		if (a->threads[i].calls < LEAST_CALLS && ++a->threads[i].idle > MOST_IDLE)
			a->threads[i--] = a->threads[--a->n];
	}
}
