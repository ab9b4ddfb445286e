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

/* Waits until then by CLOCK_MONOTONIC; UINT64_MAX: for ever. 0, also where nobody signalled, or ETIMEDOUT. */
static inline int clock__wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
	const struct timespec at = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };

	if (until_ns == UINT64_MAX)
		return pthread_cond_wait(cond, lock);
	return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &at);
}

#endif
