// SPDX-License-Identifier: GPL-2.0-or-later
/* What a target goes without of what its probes take. */
#include "daemon/cuda_watch_parts.h"

#define LEAST_CALLERS 100   /* calls that tell how many threads make them */
#define MAX_THREADS   100.0 /* more are not told apart */
#define SATURATED     0.95  /* CPUs kept busy: the rest has gone to other programs */

/*
 * Where waits are known, less is left in which the target might look at a clock until it is time for the next call; but what probes cost
 * in cold caches is not known that well.
 */
#define LEAST_DOUBT 0.3
static double doubt(const struct cuda_watch *w)
{
	double usual = cuda_active__usual(&w->active);

	if (usual < 0 || !w->active.tid)
		return 1;
	return usual > LEAST_DOUBT ? usual : LEAST_DOUBT;
}

#define LEAST_EXPECTED 8   /* calls during others, if threads did not care for one another, */
#define MOST_OVERLAP   0.1 /* of which so many at most there are where they make their calls by turns */

/* Whether no thread makes calls while another does, as when each waits for the other: then what one goes without all do. */
static bool takes_turns(const struct cuda_watch *w)
{
	return w->callers.expected >= LEAST_EXPECTED &&
	       w->callers.overlapped <= MOST_OVERLAP * w->callers.expected;
}

/*
 * Times what a probe costs by calibration. With cold caches the program has lost more when it goes on, which cannot be seen from within the
 * probe: up to half as much again, so half of that is believed.
 */
#define SLOWER 0.25
static double slowness(const struct cuda_watch *w)
{
	struct cuda_probe_cost cost = cuda_probes__cost(w->probes);

	return 1 + SLOWER * cuda_probe_cost__coldness(&cost, cuda_watch_cost(w).program_ns);
}

/*
 * What comparisons say of the probes' cost, or else: each thread that makes calls goes without what its own probes take. Of threads that
 * keep fewer CPUs busy than they are, as may be for want of CPUs or of an interpreter's lock, what one goes without the others may do too.
 */
struct cuda_loss cuda_watch_loss(const struct cuda_watch *w)
{
	double busy = cuda_watch_busy(w), least = busy > 1 ? busy : 1, threads = least;
	struct cuda_loss prior;

	if (w->callers.all >= LEAST_CALLERS && !takes_turns(w)) {
		threads = w->callers.same * MAX_THREADS > w->callers.all ? w->callers.all / w->callers.same
									 : MAX_THREADS;
		if (threads < 1)
			threads = 1;
		if (busy >= SATURATED && threads > least)
			threads = least;
	}
	prior.factor = slowness(w) / threads;
	prior.error = CUDA_PROGRESS_PRIOR_ERROR * doubt(w) / threads;
	if (prior.error < (1 / least - 1 / threads) / 2)
		prior.error = (1 / least - 1 / threads) / 2;
	return cuda_progress__loss(&w->progress, &prior);
}
