/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of the time that probes take from a target it goes without: all of it where its thread has work to do, nothing where it
 * would have waited meanwhile. That a thread uses its CPU does not tell: it may look at a clock or a flag until it is time for the
 * next call. So it is measured: before a time on the same calls run for some ms into light probes, of which only the entry is hit and
 * nothing nested. With T the time from call to call, c what a call's probes cost, and l the loss looked for (0: waits, 1: works),
 *
 *   T_light = T + l c_light and T_all = T + l c_all, so
 *   T = T_light - k (T_all - T_light) with k = c_light / (c_all - c_light)
 *
 * and the target keeps T / T_all of the time with all probes: only the ratio of the two costs is taken from calibration.
 *
 * Hits are counted in slices of the two times: how much they vary tells how sure a comparison is, and how much comparisons differ tells
 * whether they are as sure as that. They are weighed by it, with
 * what is known without any (cuda_watch_loss.c), CUDA_PROGRESS_PRIOR_ERROR of it to be wrong.
 */
#ifndef STAKEOUT_CUDA_PROGRESS_H
#define STAKEOUT_CUDA_PROGRESS_H

#include <stdbool.h>
#include <linux/types.h>

#define CUDA_PROGRESS_PRIOR_ERROR 0.5

/* Hits by slice: slices [light_from, light_to) had light probes, [full_from, full_to) all of them. */
struct cuda_slices {
	const __u64 *hits;
	unsigned light_from, light_to, full_from, full_to;
	/*
	 * The parts of the two times in which the target waited. Where it does so between bursts, what is compared is how quickly calls
	 * follow one another inside these.
	 */
	double light_away, full_away;
};

/* The part of the time with all probes that the target had for itself: 0.7, or more than 1 by chance. */
struct cuda_kept {
	double share;
	double error; /* standard deviation */
};

/*
 * light_ns, all_ns: what the probes of one hit cost. False: nothing can be told, since there are too few slices or hits, or since all
 * probes are no dearer than light ones.
 */
bool cuda_progress__compare(const struct cuda_slices *slices, double light_ns, double all_ns,
			    struct cuda_kept *out);

/* All zero: nothing was compared yet. */
struct cuda_progress {
	double n, weight, sum, squares;
};

/* What is older weighs less: to be called once each time on. */
void cuda_progress__age(struct cuda_progress *progress);
/*
 * taken: what the probes took of the time with all probes, of all threads, as calibrated. What no loss explains is left out: the target did
 * something else meanwhile.
 */
void cuda_progress__add(struct cuda_progress *progress, const struct cuda_kept *kept, double taken);

/* × what the probes take of all threads is what the target goes without. */
struct cuda_loss {
	double factor; /* 1 where one thread makes the calls and waits for nothing; more where the probes cost more than was calibrated */
	double error;  /* standard deviation */
	double chance; /* of it, what further comparisons would make less */
};

/* prior: what is known without any comparison; its `chance` is not looked at. */
struct cuda_loss cuda_progress__loss(const struct cuda_progress *progress, const struct cuda_loss *prior);

#endif
