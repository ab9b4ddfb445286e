/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What every workload shares: work of a known size, a deadline, and output that does not depend on how long or
 * how fast it ran. A workload prints "ready" when its stack is the one that the tests expect, and as its last
 * line a checksum that is the same in each run; so a test can tell whether watching changed anything.
 */
#ifndef STAKEOUT_TESTS_WORK_H
#define STAKEOUT_TESTS_WORK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Not inlined, not cloned, not tail-merged: a function the tests look for by name. */
#define FRAME __attribute__((noipa))

/* A dependent chain (about 3 ns a round): takes the same time whatever the values are. */
static inline uint64_t work__mix(uint64_t x, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		x *= 0x9e3779b97f4a7c15u;
	}
	return x;
}

static inline double work__now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The argument as seconds from now, `fallback` when it is absent. */
static inline double work__deadline_s(int argc, char **argv, int index, double fallback)
{
	return work__now_s() + (argc > index ? atof(argv[index]) : fallback);
}

static inline void work__ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* Every round of a workload must give the value of the first one. */
static inline void work__same(uint64_t *first, uint64_t value)
{
	if (*first == 0)
		*first = value;
	if (*first != value) {
		printf("checksum differs: %016llx, then %016llx\n", (unsigned long long)*first,
		       (unsigned long long)value);
		exit(1);
	}
}

static inline int work__done(uint64_t checksum)
{
	printf("checksum %016llx\n", (unsigned long long)checksum);
	return fflush(stdout) == 0 ? 0 : 1;
}

#endif
