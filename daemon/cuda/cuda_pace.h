/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What probes take from a target that waits for the GPU often, by its waits: these are counted all the time, so times off tell how long
 * it takes from wait to wait by itself, and times on how long with probes. What it goes without is the difference, whatever the probes
 * cost by calibration, and less where it would have looked at a clock meanwhile. Of waits that are rare this tells nothing: then
 * cuda_progress.h does.
 */
#ifndef STAKEOUT_CUDA_PACE_H
#define STAKEOUT_CUDA_PACE_H

#include <stdbool.h>

#include "daemon/cuda/cuda_progress.h"

/* All zero: nothing is known. What is older weighs less. */
struct cuda_pace {
	double times;             /* times on */
	double on_ns, on_waits;   /* time that was not waited, and waits that ended, in times on */
	double taken_ns;          /* of on_ns, what the probes took by calibration */
	double all_ns;            /* times on as a whole, waits included */
	double squares;           /* of how many waits a time on had more or less than by its on_ns */
	double off_ns, off_waits; /* as on_ns, in times without a probe of the cycled kinds */
};

/* ns: without waits. */
void cuda_pace__add_off(struct cuda_pace *pace, double ns, double waits);
/* all_ns: waits included. */
void cuda_pace__add_on(struct cuda_pace *pace, double ns, double waits, double taken_ns, double all_ns);

/*
 * What the probes took of a time on of so much without waits, of which calibration says taken_ns: where each time on has some waits, what all
 * of them say, or chance in the one would make too much of it (a call stands for more the less is left, and not for as much less the
 * more is).
 */
double cuda_pace__taken(const struct cuda_pace *pace, double ns, double taken_ns);

/*
 * The part of times on that the probes took by calibration; of what was not waited, or of all. (Where that is most of a burst, a time on that meets one
 * says more than others, which say nothing.) 0: nothing is known.
 */
double cuda_pace__taken_of_active(const struct cuda_pace *pace);
double cuda_pace__taken_of_all(const struct cuda_pace *pace);

/* What × taken_ns the target goes without. False: not known. */
bool cuda_pace__loss(const struct cuda_pace *pace, struct cuda_loss *out);

#endif
