/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --since, --until and --at: a range of time in a person's words.
 *
 * A point in time is one of
 *   90s, 5m, 2h, 1d, 1h30m      so long ago; a day is 24 hours
 *   03:12, 03:12:30             the nearest such time that is not in the future
 *   2026-11-20                  the day's first moment
 *   2026-11-20 03:00[:30]       or with a T in place of the blank; with a Z behind it, UTC
 *   now
 * in the local time zone (TZ). A time that the clock leaves out when summer begins is an error where its date is given,
 * and is looked for on the day before where it is not. Of a time that the clock shows twice when summer ends, --since
 * takes the first, so that the range has both; --until and --at take the second, if it is not in the future.
 */
#ifndef STAKEOUT_TIME_RANGE_H
#define STAKEOUT_TIME_RANGE_H

#include <stdint.h>

#include "stakeout/error.h"

/* The range of --at: the minute that begins then where no seconds are given (22:57), else half before, half behind. */
#define TIME_RANGE_AT_NS     ((int64_t)60 * 1000000000)
#define TIME_RANGE_MAX_AGO_S ((int64_t)3660 * 86400) /* ten years */

/* ns since 1970-01-01 UTC */
struct time_range {
	int64_t from_ns, to_ns;
};

/*
 * Any of the three texts may be NULL; with all three, the range is everything up to now: from_ns 0. `at` goes alone. A
 * range ends at now_ns at the latest. -EINVAL, in words: not a time; in the future; an empty range; `at` with another
 * one.
 */
int time_range__parse(const char *since, const char *until, const char *at, int64_t now_ns, struct time_range *out,
		      struct so_error *err);

#endif
