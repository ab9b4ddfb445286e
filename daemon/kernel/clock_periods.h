/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Periods of the clocks that together tick at a rate. One clock of a fixed period keeps step with a target whose rounds
 * are near a multiple or a fraction of that period, and then sees the same part of each round. Several clocks of
 * slightly different periods cannot all keep step with anything.
 */
#ifndef STAKEOUT_CLOCK_PERIODS_H
#define STAKEOUT_CLOCK_PERIODS_H

#include <stdint.h>

#define CLOCK_PERIODS_MAX 8

/*
 * Writes the periods, shortest first, and returns how many clocks it takes: no clock's period is to be much longer than
 * 100 ms. Clocks that begin in this order, evenly spread, draw apart at first; in the other order they would soon tick
 * in bunches. 1 <= rate_hz <= SO_RATE_MASK. Each period has the rate in the bits of SO_RATE_MASK.
 */
unsigned clock_periods__get(unsigned rate_hz, uint64_t periods[CLOCK_PERIODS_MAX]);
/* Of one clock alone, with the rate in its bits, too. */
uint64_t clock_periods__single(unsigned rate_hz);

#endif
