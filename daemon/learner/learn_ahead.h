/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Learns the functions around a met one, each region once, before samples need them. With the engine's lock held. */
#ifndef STAKEOUT_LEARN_AHEAD_H
#define STAKEOUT_LEARN_AHEAD_H

#include "daemon/learner/learn_notes.h"

struct learn_ahead {
	pthread_mutex_t *lock; /* the engine's */
	struct file_registry *files;
	struct learn_notes *notes;
	struct scan_queue *scans;
	struct effect_reader *effects; /* made when first needed */
	struct ahead_job *jobs;        /* finished ones stay, as a note that they are */
};

/* Has the functions around a file's address learned when the scanner's thread has time. tgid: whose sample it was. */
void learn_ahead__plan(struct learn_ahead *a, pid_t tgid, uint32_t file, uint64_t vaddr);
/* The scanner's thread: learns some, and lets the lock go meanwhile. False when there is nothing to do. */
bool learn_ahead__work(struct learn_ahead *a);
/* All of it. */
void learn_ahead__forget(struct learn_ahead *a);
/* The files that are still to be learned of. */
void learn_ahead__mark(const struct learn_ahead *a, struct file_set *set);
/* Forgets what is noted of files that are in the registry no more. */
void learn_ahead__tidy(struct learn_ahead *a);

#endif
