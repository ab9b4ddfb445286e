// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout check: whether this machine can do the work, before anything is tried. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/session/message.h"
#include "client/session/private_daemon.h"
#include "client/commands/running.h"

/* With --socket, the daemon there answers; otherwise the stakeoutd that a command here would start. */
static int ask(const struct globals *globals, json_t **out, struct so_error *err)
{
	_cleanup_(api_client) struct api_client *api = NULL;
	_cleanup_free_ char *text = NULL;
	json_t *root;
	int ret;

	if (globals->socket) {
		ret = api_client__new(globals->socket, &api, err);
		return ret ? ret : api_client__call(api, "GET", "/v1/check", NULL, out, err);
	}
	ret = private_daemon__check(&text, err);
	if (ret)
		return ret;
	root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (!root)
		return so_err(err, -EIO, "stakeoutd's answer is not JSON");
	*out = root;
	return 0;
}

static const char *text_of(const json_t *item, const char *name, char *buffer, size_t size)
{
	const char *text = json_string_value(json_object_get(item, name));

	snprintf(buffer, size, "%s", text ? text : "");
	message__clean(buffer);
	return buffer;
}

/* Returns whether something required is missing. */
static bool print_table(const json_t *items)
{
	char name[64], used[256], without[256];
	bool lacking = false;
	int width = 4;
	json_t *item;
	size_t i;

	json_array_foreach (items, i, item) {
		int n = (int)strlen(text_of(item, "name", name, sizeof(name)));

		width = n > width ? n : width;
	}
	json_array_foreach (items, i, item) {
		bool found = json_is_true(json_object_get(item, "found"));
		bool required = json_is_true(json_object_get(item, "required"));

		lacking |= required && !found;
		text_of(item, "name", name, sizeof(name));
		text_of(item, "used", used, sizeof(used));
		text_of(item, "without", without, sizeof(without));
		printf("%-8s %-*s  %s\n", found ? "found" : required ? "MISSING" : "missing", width, name, used);
		if (!found && without[0])
			printf("%-8s %-*s  without it: %s\n", "", width, "", without);
	}
	return lacking;
}

static bool lacks_required(const json_t *items)
{
	json_t *item;
	size_t i;

	json_array_foreach (items, i, item)
		if (json_is_true(json_object_get(item, "required")) && !json_is_true(json_object_get(item, "found")))
			return true;
	return false;
}

static int check(const struct globals *globals, bool as_json)
{
	struct so_error err = { .text = "" };
	json_auto_t *items = NULL;
	bool lacking;

	if (ask(globals, &items, &err)) {
		message__error("%s", err.text);
		return STATUS_FAILED;
	}
	if (as_json) {
		json_dumpf(items, stdout, JSON_INDENT(2));
		putchar('\n');
		lacking = lacks_required(items);
	} else {
		lacking = print_table(items);
		puts(lacking ? "stakeout cannot work here: what is MISSING above is required"
			     : "stakeout can work here");
	}
	return lacking ? STATUS_FAILED : STATUS_DONE;
}

int cmd_check(const struct globals *globals, int argc, char **argv)
{
	bool as_json = false;
	const struct option_entry entries[] = {
		{ OPTION_ON, 0, "json", NULL, &as_json, "as stakeoutd gives it" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "check [--json]",
		.about = "Shows which of the kernel's mechanisms and privileges are there, and what the "
			 "absence\n"
			 "of each costs. Needs no privileges and no daemon. Exit status 1: stakeout cannot "
			 "work\n"
			 "here.",
		.entries = entries,
	};
	int status = running__parse(&table, argc, argv);

	return status >= 0 ? status : check(globals, as_json);
}
