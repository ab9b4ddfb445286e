// SPDX-License-Identifier: GPL-2.0-or-later
/* What a target goes without of what its probes take. */
#include <math.h>

#include "daemon/cuda/cuda_watch_parts.h"

#define LEAST_CALLERS 100   /* calls that tell how many threads make them */
#define MAX_THREADS   100.0 /* more are not told apart */
#define SATURATED     0.95  /* CPUs kept busy: the rest has gone to other programs */
#define ONE_AT_A_TIME 1.2   /* CPUs that threads of which one works at a time keep busy at most */

#define COLD_ERROR 0.4 /* of what probes cost, with cold caches (cuda_probe_cost.c) */

/* Where waits are known, less is left in which the target might look at a clock until it is time for the next call. */
#define LEAST_DOUBT 0.3
static double doubt(const struct cuda_watch *w)
{
	double usual = cuda_active__usual(&w->active);

	if (usual < 0 || !w->active.tid)
		return 1;
	return usual > LEAST_DOUBT ? usual : LEAST_DOUBT;
}

static double prior_error(const struct cuda_watch *w)
{
	return hypot(CUDA_PROGRESS_PRIOR_ERROR * doubt(w), COLD_ERROR * w->coldness);
}

#define LEAST_TIMES    3 /* times on in which a call might have returned during another: they come in clumps */
#define LEAST_EXPECTED 8 /* calls during others, if threads did not care for one another, */
#define MOST_OVERLAP   0.1 /* of which so many at most there are where they make their calls by turns */

/* Whether no thread makes calls while another does, as when each waits for the other: then what one goes without all do. */
static bool takes_turns(const struct cuda_watch *w)
{
	return w->callers.times >= LEAST_TIMES && w->callers.expected >= LEAST_EXPECTED &&
	       w->callers.overlapped <= MOST_OVERLAP * w->callers.expected;
}

/* 0: there are too few calls to tell. */
static double callers_of(const struct cuda_watch *w)
{
	if (w->callers.all < LEAST_CALLERS)
		return 0;
	return w->callers.same * MAX_THREADS > w->callers.all ? fmax(w->callers.all / w->callers.same, 1)
							      : MAX_THREADS;
}

/* Of two that know nothing of one another, each by how sure it is. */
static struct cuda_loss mean_of(const struct cuda_loss *a, const struct cuda_loss *b)
{
	double of_a = 1 / (a->error * a->error), of_b = 1 / (b->error * b->error);

	return (struct cuda_loss){ .factor = (of_a * a->factor + of_b * b->factor) / (of_a + of_b),
				   .error = 1 / sqrt(of_a + of_b),
				   .chance = 1 /
					     sqrt(1 / (a->chance * a->chance) + 1 / (b->chance * b->chance)) };
}

/*
 * What waits and comparisons say of the probes' cost, or else: each thread that makes calls goes without what its own probes take. Of threads that
 * keep fewer CPUs busy than they are, as may be for want of CPUs or of an interpreter's lock, what one goes without the others may do too.
 */
struct cuda_loss cuda_watch_loss(const struct cuda_watch *w)
{
	double busy = cuda_watch_busy(w), least = busy > 1 ? busy : 1, threads = least, callers = callers_of(w);
	bool turns = callers > 0 && takes_turns(w);
	struct cuda_loss prior, compared, paced;

	if (turns)
		threads = 1;
	else if (callers > 0)
		threads = busy >= SATURATED && callers > least ? least : callers;
	prior.factor = 1 / threads;
	prior.error = prior_error(w) / threads;
	if (prior.error < (1 / least - 1 / threads) / 2)
		prior.error = (1 / least - 1 / threads) / 2;
	/* With CPUs for all they may have work of their own between calls that a lock keeps apart. */
	if (turns && busy > ONE_AT_A_TIME && prior.error < (1 - 1 / callers) / 2)
		prior.error = (1 - 1 / callers) / 2;
	compared = cuda_progress__loss(&w->progress, &prior);
	return cuda_pace__loss(&w->pace, &paced) ? mean_of(&compared, &paced) : compared;
}
