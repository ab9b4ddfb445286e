// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout status: the daemon's state in short; --json has all of it. */
#include <inttypes.h>
#include <stdio.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/session/json_value.h"

#define TEXT_BYTES 512

static double real(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void print_text(const char *title, const json_t *object, const char *name)
{
	char text[TEXT_BYTES];

	json_value__text(object, name, text, sizeof(text));
	if (*text)
		printf("%-11s %s\n", title, text);
}

static void print_head(const json_t *all)
{
	const json_t *daemon = json_object_get(all, "daemon");
	char version[TEXT_BYTES];

	json_value__text(all, "version", version, sizeof(version));
	printf("stakeoutd %s, PID %" PRIu64 ", for %.0f s: %" PRIu64 " targets of %" PRIu64 ", %" PRIu64 " processes\n",
	       version, json_value__number(all, "pid"), real(all, "uptime_s"), json_value__number(all, "targets"),
	       json_value__number(all, "max_targets"), json_value__number(all, "processes"));
	printf("%-11s %.2f CPU s, %.0f MB; unwind tables of %" PRIu64 " files, %.1f MB\n", "itself",
	       real(daemon, "cpu_s"), real(daemon, "rss_bytes") / 1e6,
	       json_value__number(json_object_get(all, "unwind"), "files"),
	       real(json_object_get(all, "unwind"), "bytes") / 1e6);
}

static void print_history(const json_t *history)
{
	char path[TEXT_BYTES];

	if (!json_is_object(history))
		return;
	json_value__text(history, "path", path, sizeof(path));
	printf("%-11s %.1f MB in %s\n", "history", real(history, "used_bytes") / 1e6, path);
	if (json_value__number(history, "windows_lost"))
		printf("%-11s %" PRIu64 " windows could not be written\n", "  lost",
		       json_value__number(history, "windows_lost"));
	print_text("  problem", history, "problem");
}

/* What the daemon may not do, of what it could use. */
static void print_missing(const json_t *privileges)
{
	const json_t *missing = json_object_get(privileges, "missing"), *item;
	size_t i;

	if (!json_array_size(missing))
		return;
	printf("%-11s", "not allowed");
	json_array_foreach (missing, i, item) {
		char text[TEXT_BYTES];

		snprintf(text, sizeof(text), "%s", json_is_string(item) ? json_string_value(item) : "?");
		message__clean(text);
		printf(" %s", text);
	}
	putchar('\n');
}

static void print_costs(const json_t *costs)
{
	const json_t *cost;
	size_t i;

	if (!json_array_size(costs))
		return;
	printf("\n%4s %8s %-16s %5s %10s %6s %9s %8s\n", "ID", "PID", "COMM", "PROCS", "SAMPLES", "LOST", "COST",
	       "MEMORY");
	json_array_foreach (costs, i, cost) {
		char comm[64];

		json_value__text(cost, "comm", comm, sizeof(comm));
		printf("%4" PRIu64 " %8" PRIu64 " %-16s %5" PRIu64 " %10" PRIu64 " %6" PRIu64,
		       json_value__number(cost, "id"), json_value__number(cost, "pid"), comm,
		       json_value__number(cost, "processes"), json_value__number(cost, "samples"),
		       json_value__number(cost, "lost"));
		if (json_is_number(json_object_get(cost, "overhead_percent")))
			printf(" %7.2f %%", real(cost, "overhead_percent"));
		else
			printf(" %9s", "-");
		printf(" %5.1f MB\n", real(cost, "sample_bytes") / 1e6);
	}
}

/* Those that were reached, or are near. */
static void print_limits(const json_t *limits)
{
	const json_t *limit;
	size_t i, shown = 0;

	json_array_foreach (limits, i, limit) {
		uint64_t now = json_value__number(limit, "now"), max = json_value__number(limit, "limit"),
			 hit = json_value__number(limit, "hit");
		char name[64];

		if (!hit && (!max || now < max / 2))
			continue;
		if (!shown++)
			printf("\n%-26s %12s %12s %12s\n", "LIMIT", "NOW", "LIMIT", "REACHED");
		json_value__text(limit, "name", name, sizeof(name));
		printf("%-26s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", name, now, max, hit);
	}
	if (!shown)
		printf("%-11s none of %zu reached, nor half of one in use\n", "limits", json_array_size(limits));
}

static int print_status(struct api_client *api, const json_t *all, struct so_error *err)
{
	const json_t *mechanisms = json_object_get(all, "mechanisms");

	print_head(all);
	print_text("sampling", mechanisms, "sampling");
	print_text("unwinder", mechanisms, "unwinder");
	print_text("processes", mechanisms, "processes");
	print_text("mappings", mechanisms, "mappings");
	print_history(json_object_get(all, "history"));
	print_missing(json_object_get(all, "privileges"));
	if (json_value__number(all, "denials"))
		printf("%-11s %" PRIu64 " requests\n", "refused", json_value__number(all, "denials"));
	print_limits(json_object_get(all, "limits"));
	print_costs(json_object_get(all, "costs"));
	return 0;
}

int cmd_status(const struct globals *globals, int argc, char **argv)
{
	static const struct running_answer answer = {
		.usage = "status [--json]",
		.about = "Shows the running daemon's state in short: mechanisms, what it lacks, limits that are\n"
			 "near, what each target costs. --json has all of it.",
		.path = "/v1/status",
		.print = print_status,
	};

	return running__show(globals, &answer, argc, argv);
}
