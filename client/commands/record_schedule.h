/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When a process is recorded: in cycles of waiting, warming up and recording, a file each. */
#ifndef STAKEOUT_CLIENT_RECORD_SCHEDULE_H
#define STAKEOUT_CLIENT_RECORD_SCHEDULE_H

#include <stdbool.h>
#include <time.h>

#include "stakeout/error.h"

#define RECORD_SCHEDULE_MAX_CYCLES 100000

/* All zero: there is none, and one recording begins at once. */
struct record_schedule {
	double wait_s;   /* of each cycle: before anything is done */
	double warmup_s; /* then attached to already, so that what is read for the first time is not recorded */
	double active_s; /* then recorded; above 0 in a schedule */
	unsigned repeat; /* cycles; 0: until the process ends */
	bool in_steps;   /* the three are steps of the program, not seconds; those of the first two are in no file */
	double clock_s;  /* active parts begin at multiples of it by the clock (UTC); 0: at any time */
};

/* text: "10s", or "/10s". -EINVAL: none, in words. */
int record_schedule__parse_clock(const char *text, double *clock_s, struct so_error *err);
#define RECORD_SCHEDULE_MAX_STEPS 500000000
/* unit: "seconds", "steps", or NULL. -EINVAL: another, or parts that are no number of steps, in words. */
int record_schedule__take_unit(struct record_schedule *schedule, const char *unit, struct so_error *err);
/* -EINVAL: parts of a schedule without active ones, in words. given: what of it was on the command line. */
int record_schedule__check(const struct record_schedule *schedule, bool repeat_given, struct so_error *err);

static inline bool record_schedule__is_set(const struct record_schedule *schedule)
{
	return schedule->active_s > 0;
}

/* Whether another cycle follows the n-th, from 1. */
static inline bool record_schedule__goes_on(const struct record_schedule *schedule, unsigned n)
{
	return record_schedule__is_set(schedule) && (!schedule->repeat || n < schedule->repeat);
}

/* How long it is from that time of the clock until the next active part may begin, s. */
double record_schedule__until_clock_s(const struct record_schedule *schedule, struct timespec now);
/* The n-th cycle's file: of "run.pb.gz" it is "run-2.pb.gz". The caller frees it; NULL: no memory. */
char *record_schedule__path(const char *path, unsigned n);
/* Sleeps so long; less when the user wants to end. */
void record_schedule__sleep_s(double seconds);

#endif
