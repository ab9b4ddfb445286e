// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout status: what the daemon says of itself. */
#include <stdio.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/session/message.h"
#include "client/commands/running.h"

#define MAX_DEPTH 8

static void print_scalar(const json_t *value)
{
	char text[512];

	switch (json_typeof(value)) {
	case JSON_STRING:
		snprintf(text, sizeof(text), "%s", json_string_value(value));
		message__clean(text);
		fputs(text, stdout);
		break;
	case JSON_INTEGER:
		printf("%lld", (long long)json_integer_value(value));
		break;
	case JSON_REAL:
		printf("%.6g", json_real_value(value));
		break;
	case JSON_TRUE:
		fputs("yes", stdout);
		break;
	case JSON_FALSE:
		fputs("no", stdout);
		break;
	default:
		fputs("-", stdout);
	}
}

static bool is_container(const json_t *value)
{
	return (json_is_object(value) && json_object_size(value)) ||
	       (json_is_array(value) && json_array_size(value));
}

static bool is_flat(const json_t *value)
{
	const char *key;
	json_t *item;

	if (!json_is_object(value) || !json_object_size(value))
		return false;
	json_object_foreach ((json_t *)value, key, item)
		if (is_container(item))
			return false;
	return true;
}

/* One of many of a kind: "name: targets, limit: 64" in one line. */
static void print_row(json_t *row, int depth)
{
	const char *key, *before = "";
	json_t *item;

	printf("%*s- ", 2 * depth, "");
	json_object_foreach (row, key, item) {
		printf("%s%s: ", before, key);
		print_scalar(item);
		before = ", ";
	}
	putchar('\n');
}

/* The daemon's fields as they are, an indented line each: new ones need no new client. */
static void print_value(const char *name, json_t *value, int depth)
{
	const char *key;
	json_t *item;
	size_t i;

	if (!is_container(value) || depth >= MAX_DEPTH) {
		printf("%*s%s: ", 2 * depth, "", name);
		print_scalar(value);
		putchar('\n');
		return;
	}
	if (depth >= 0)
		printf("%*s%s:\n", 2 * depth, "", name);
	json_object_foreach (value, key, item)
		print_value(key, item, depth + 1);
	json_array_foreach (value, i, item) {
		if (is_flat(item))
			print_row(item, depth + 1);
		else
			print_value("-", item, depth + 1);
	}
}

static int print_status(struct api_client *api, const json_t *all, struct so_error *err)
{
	print_value("", (json_t *)all, -1);
	return 0;
}

int cmd_status(const struct globals *globals, int argc, char **argv)
{
	static const struct running_answer answer = {
		.usage = "status [--json]",
		.about = "Shows the running daemon's state: mechanisms in use, targets, tables, its own cost.",
		.path = "/v1/status",
		.print = print_status,
	};

	return running__show(globals, &answer, argc, argv);
}
