/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_CLOCK_H
#define STAKEOUT_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock__read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* CLOCK_MONOTONIC, as the kernel side stamps its events. */
static inline uint64_t clock__now_ns(void)
{
	return clock__read_ns(CLOCK_MONOTONIC);
}

/* A condition whose timed waits go by CLOCK_MONOTONIC. */
static inline void clock__init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

#endif
