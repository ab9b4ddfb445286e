// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/record_schedule.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/session/interrupt.h"
#include "stakeout/options.h"
#include "stakeout/short_path.h"

#define STEP_MS 100

int record_schedule__parse_clock(const char *text, double *clock_s, struct so_error *err)
{
	int ret = options__duration(*text == '/' ? text + 1 : text, clock_s, err);

	if (!ret && !(*clock_s > 0))
		ret = so_err(err, -EINVAL, "--at-clock needs a time, as /10s: at each tenth second of the clock");
	return ret;
}

static bool are_steps(double n)
{
	return n == floor(n) && n <= RECORD_SCHEDULE_MAX_STEPS;
}

int record_schedule__take_unit(struct record_schedule *s, const char *unit, struct so_error *err)
{
	if (!unit || !strcmp(unit, "seconds"))
		return 0;
	if (strcmp(unit, "steps"))
		return so_err(err, -EINVAL, "--unit %.20s: it is seconds or steps", unit);
	if (!record_schedule__is_set(s))
		return so_err(err, -EINVAL, "--unit steps is for cycles: it needs --active STEPS");
	if (!are_steps(s->wait_s) || !are_steps(s->warmup_s) || !are_steps(s->active_s))
		return so_err(err, -EINVAL, "--wait, --warmup and --active are whole numbers of steps");
	if (s->clock_s > 0)
		return so_err(err, -EINVAL, "--at-clock or --unit steps, not both");
	s->in_steps = true;
	return 0;
}

int record_schedule__check(const struct record_schedule *schedule, bool repeat_given, struct so_error *err)
{
	if (record_schedule__is_set(schedule))
		return 0;
	if (schedule->wait_s > 0 || schedule->warmup_s > 0 || repeat_given)
		return so_err(err, -EINVAL, "--wait, --warmup and --repeat are for cycles: they need --active SECONDS");
	return 0;
}

double record_schedule__until_clock_s(const struct record_schedule *schedule, struct timespec now)
{
	double past_s;

	if (!(schedule->clock_s > 0))
		return 0;
	past_s = fmod((double)now.tv_sec, schedule->clock_s) + (double)now.tv_nsec / 1e9;
	return schedule->clock_s - fmod(past_s, schedule->clock_s);
}

char *record_schedule__path(const char *path, unsigned n)
{
	const char *name = short_path(path);
	const char *dot = *name ? strchr(name + 1, '.') : NULL;
	int stem = (int)(dot ? dot - path : (ptrdiff_t)strlen(path));
	char *numbered;

	return asprintf(&numbered, "%.*s-%u%s", stem, path, n, path + stem) < 0 ? NULL : numbered;
}

void record_schedule__sleep_s(double seconds)
{
	struct timespec now;
	double end_s;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9 + seconds;
	while (!interrupt__pending()) {
		double left_ms;

		clock_gettime(CLOCK_MONOTONIC, &now);
		left_ms = 1e3 * (end_s - (double)now.tv_sec - (double)now.tv_nsec / 1e9);
		if (left_ms <= 0)
			return;
		interrupt__sleep_ms(left_ms > STEP_MS ? STEP_MS : (unsigned)left_ms + 1);
	}
}
