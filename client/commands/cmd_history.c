// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout history: what the running daemon's history holds. */
#include <stdio.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/session/json_value.h"
#include "client/session/message.h"
#include "client/session/past_time.h"
#include "client/commands/running.h"

static long long number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static void time_of(const json_t *object, const char *name, char text[PAST_TIME_BYTES])
{
	past_time(number(object, name), text);
}

static void print_target(const json_t *target)
{
	char comm[64], end[16], first[PAST_TIME_BYTES], last[PAST_TIME_BYTES];

	json_value__text(target, "comm", comm, sizeof(comm));
	json_value__text(target, "end", end, sizeof(end));
	if (!strcmp(end, "open"))
		snprintf(end, sizeof(end), "watched");
	time_of(target, "first_ns", first);
	time_of(target, "last_ns", last);
	printf("%5lld %8lld %-16s %-19s %-19s %-8s %10lld %6lld\n", number(target, "key"), number(target, "pid"), comm,
	       first, last, end, number(target, "samples"), number(target, "lost"));
}

static void print_gap(const json_t *gap)
{
	char begin[PAST_TIME_BYTES], end[PAST_TIME_BYTES], cause[32], key[24] = "";

	time_of(gap, "begin_ns", begin);
	time_of(gap, "end_ns", end);
	json_value__text(gap, "cause", cause, sizeof(cause));
	if (number(gap, "key"))
		snprintf(key, sizeof(key), " of history %lld", number(gap, "key"));
	if (!strcmp(cause, "open-window"))
		printf("gap%s from %s: the daemon was killed; up to %lld window lost\n", key, begin,
		       number(gap, "windows"));
	else
		printf("gap%s from %s to %s: %lld windows could not be written\n", key, begin, end,
		       number(gap, "windows"));
}

static void print_incident(const json_t *incident)
{
	char comm[64], why[256], when[PAST_TIME_BYTES];

	json_value__text(incident, "comm", comm, sizeof(comm));
	json_value__text(incident, "why", why, sizeof(why));
	time_of(incident, "time_ns", when);
	printf("incident %lld at %s of %lld (%s): %s\n", number(incident, "id"), when, number(incident, "pid"), comm,
	       why);
}

static int print_list(struct api_client *api, const json_t *list, struct so_error *err)
{
	char problem[512];
	json_t *item;
	size_t i;

	json_value__text(list, "problem", problem, sizeof(problem));
	if (problem[0])
		message__note("nothing is written now: %s", problem);

	printf("%5s %8s %-16s %-19s %-19s %-8s %10s %6s\n", "KEY", "PID", "COMM", "FROM", "TO", "END", "SAMPLES",
	       "LOST");
	json_array_foreach (json_object_get(list, "targets"), i, item)
		print_target(item);
	json_array_foreach (json_object_get(list, "gaps"), i, item)
		print_gap(item);
	json_array_foreach (json_object_get(list, "incidents"), i, item)
		print_incident(item);
	return 0;
}

int cmd_history(const struct globals *globals, int argc, char **argv)
{
	static const struct running_answer answer = {
		.usage = "history [--json]",
		.about =
			"Shows whose past the running daemon has, what it is known to lack, and what was kept of slow\n"
			"steps and the like; other users' processes only to root. 'stakeout summary -p PID --since "
			"5m'\n"
			"shows a part of it, 'stakeout incidents ID -o FILE' writes one of these.",
		.path = "/v1/history",
		.print = print_list,
	};

	return running__show(globals, &answer, argc, argv);
}
