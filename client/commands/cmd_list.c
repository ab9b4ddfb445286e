// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout list: the daemon's targets. */
#include <stdio.h>

#include "client/commands/commands.h"
#include "client/session/rules.h"
#include "client/commands/running.h"
#include "client/session/target.h"

#define CONTAINER_COLUMNS ((int)sizeof(((struct target *)0)->container) - 1)

/* Columns that are there where any target has something for them. */
struct columns {
	bool rank, container, rule;
};

static struct columns find_columns(const json_t *all)
{
	struct columns columns = { false, false, false };
	struct target target;
	json_t *json;
	size_t i;

	json_array_foreach (all, i, json) {
		target__read(json, &target);
		columns.rank |= target.rank[0] != '\0';
		columns.container |= target.container[0] != '\0';
		columns.rule |= target.rule != 0;
	}
	return columns;
}

static void print_more(const struct target *target, const struct columns *columns)
{
	if (columns->rank)
		printf(" %6s", target->rank[0] ? target->rank : "-");
	if (columns->container)
		printf(" %-*s", CONTAINER_COLUMNS, target->container[0] ? target->container : "-");
	if (columns->rule && target->rule)
		printf(" %4u", target->rule);
	else if (columns->rule)
		printf(" %4s", "-");
	putchar('\n');
}

static void print_target(const struct target *target)
{
	char state[40];

	if (target->end[0])
		snprintf(state, sizeof(state), "%s: %s", target->state, target->end);
	else
		snprintf(state, sizeof(state), "%s", target->state);
	printf("%4u %8d %-16s %-17s %5u %9.1f %5llu %10llu %6llu", target->id, target->pid, target->comm, state,
	       target->rate_hz, target->elapsed_s, (unsigned long long)target->processes,
	       (unsigned long long)target->samples, (unsigned long long)target->lost);
}

static int print_all(struct api_client *api, const json_t *all, struct so_error *err)
{
	const struct columns columns = find_columns(all);
	struct target target;
	json_t *json;
	size_t i;

	printf("%4s %8s %-16s %-17s %5s %9s %5s %10s %6s%s%s%s\n", "ID", "PID", "COMM", "STATE", "HZ", "SECONDS",
	       "PROCS", "SAMPLES", "LOST", columns.rank ? "   RANK" : "", columns.container ? " CONTAINER   " : "",
	       columns.rule ? " RULE" : "");
	json_array_foreach (all, i, json) {
		target__read(json, &target);
		print_target(&target);
		print_more(&target, &columns);
	}
	return rules__print(api, err);
}

int cmd_list(const struct globals *globals, int argc, char **argv)
{
	static const struct running_answer answer = {
		.usage = "list [--json]",
		.about = "Shows what the running daemon watches, and its rules; other users' only to root.",
		.path = "/v1/targets",
		.print = print_all,
	};

	return running__show(globals, &answer, argc, argv);
}
