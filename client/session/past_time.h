/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Times of the history as a person reads them. */
#ifndef STAKEOUT_CLIENT_PAST_TIME_H
#define STAKEOUT_CLIENT_PAST_TIME_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define PAST_SECOND_NS  ((int64_t)1000000000)
#define PAST_TIME_BYTES 32

/* ns since 1970-01-01 UTC, in local time as --since takes it. 0: "-". */
static inline void past_time(int64_t ns, char text[PAST_TIME_BYTES])
{
	time_t seconds = (time_t)(ns / PAST_SECOND_NS);
	struct tm tm;

	if (!ns || !localtime_r(&seconds, &tm) || !strftime(text, PAST_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, PAST_TIME_BYTES, "-");
}

#endif
