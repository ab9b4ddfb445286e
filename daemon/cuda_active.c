// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda_active.h"

#include <math.h>

#define CALLS_KEPT     0.9  /* of what was known of a thread, for each time on */
#define LEAST_CALLS    0.5  /* a thread that has fewer left has stopped making calls */
#define MOST           0.95 /* of all calls, that one thread makes */
#define LEAST_KNOWN_NS 1e7
#define MEMORY_NS      10e9
#define UNKNOWN        (-1.0)

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
	return most >= MOST * all ? tid : 0;
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
	uint64_t away_ns = 0;

	if (tid)
		told = read(context, tid, now, &away_ns);
	/* Of a thread that has ended since it is not known, and of one that never could be asked nothing is. */
	if (!a->tid || (told == CUDA_ACTIVE_NEVER && tid != a->tid))
		share = 1;
	else if (told == CUDA_ACTIVE_KNOWN && a->is_known && tid == a->tid && away_ns >= a->away_ns)
		share = ns > 0 ? 1 - fmin((double)(away_ns - a->away_ns) / ns, 1) : 1;
	if (keep) {
		if (told == CUDA_ACTIVE_KNOWN && share >= 0 && a->tid)
			keep_share(a, ns, share);
		a->looked_ns = now;
		a->tid = told == CUDA_ACTIVE_NEVER ? 0 : tid;
		a->is_known = told == CUDA_ACTIVE_KNOWN;
		a->away_ns = away_ns;
	}
	return share;
}

void cuda_active__interrupt(struct cuda_active *a)
{
	a->is_known = false;
}

double cuda_active__usual(const struct cuda_active *a)
{
	return a->known_ns >= LEAST_KNOWN_NS ? a->active_ns / a->known_ns : UNKNOWN;
}

void cuda_active__add_calls(struct cuda_active *a, pid_t tid, double calls)
{
	unsigned least = 0, i;

	for (i = 0; i < a->n && a->threads[i].tid != tid; i++) {
		if (a->threads[i].calls < a->threads[least].calls)
			least = i;
	}
	if (i == a->n && a->n == CUDA_ACTIVE_THREADS) {
		/* What it made is not forgotten: else one of very many threads would seem to make most calls. */
		a->threads[least].tid = tid;
		a->threads[least].calls += calls;
		return;
	}
	if (i == a->n)
		a->threads[a->n++].calls = 0;
	a->threads[i].tid = tid;
	a->threads[i].calls += calls;
}

void cuda_active__age(struct cuda_active *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		a->threads[i].calls *= CALLS_KEPT;
		if (a->threads[i].calls < LEAST_CALLS)
			a->threads[i--] = a->threads[--a->n];
	}
}
