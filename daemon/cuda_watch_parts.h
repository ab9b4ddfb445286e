/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of cuda_watch.h share. */
#ifndef STAKEOUT_CUDA_WATCH_PARTS_H
#define STAKEOUT_CUDA_WATCH_PARTS_H

#include "daemon/cuda_watch.h"

static inline bool cuda_watch_is_on(const struct cuda_watch *w)
{
	return w->phase == CUDA_WATCH_ON;
}

/* 64 random bits that do not follow the target. */
uint64_t cuda_watch_random(struct cuda_watch *w);

/* cuda_watch_settle.c */

/* The probes of the cycled kinds count from now on. */
/* Counters of threads that are preempted between reading and writing may go back a little. */
static inline uint64_t gained(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void cuda_watch_begin_segment(struct cuda_watch *w, uint64_t now_ns);
/* Tells the kernel which kinds of calls stand for others, and by which segment's factor. To be called when the kinds change. */
void cuda_watch_set_segments(struct cuda_watch *w);
/* What a probe costs in this target, now. */
struct cuda_probe_cost cuda_watch_cost(const struct cuda_watch *w);
/* What a call whose stack was taken in that segment stands for. */
double cuda_watch_line_factor(const struct cuda_watch *w, uint32_t segment);

/*
 * The last process with a library has ended at that time; the first library after it is there: nothing is called in between. -ENOMEM, or what reading
 * the maps gave: counts of some time are lost.
 */
int cuda_watch_pause(struct cuda_watch *w, uint64_t now_ns);
void cuda_watch_resume(struct cuda_watch *w);

#endif
