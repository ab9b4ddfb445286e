/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random numbers that are the same in each run (splitmix64). */
#ifndef STAKEOUT_TESTS_RANDOM_UNIT_H
#define STAKEOUT_TESTS_RANDOM_UNIT_H

#include <stdint.h>

static uint64_t random_state = 1;

/* 0 to 1. */
static inline double unit(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (double)((x ^ x >> 31) >> 11) / 0x1p53;
}

#endif
