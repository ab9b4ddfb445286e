// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout incidents: what the daemon kept of slow steps and the like. stakeout save: the same of now, by hand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/render/format.h"
#include "client/session/interrupt.h"
#include "client/session/json_value.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/output.h"
#include "client/session/past_time.h"
#include "client/session/target.h"
#include "profile/profile.h"

#define PATH_BYTES 96

struct incidents_request {
	const char *word; /* the ID, as it is given; NULL: the list is wanted */
	unsigned long id;
	const char *output;
	enum format format;
	bool remove, as_json;
};

static long long number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static void print_incident(const json_t *incident)
{
	char comm[64], why[256], when[PAST_TIME_BYTES];
	long long left_out = number(incident, "left_out");

	json_value__text(incident, "comm", comm, sizeof(comm));
	json_value__text(incident, "why", why, sizeof(why));
	past_time(number(incident, "time_ns"), when);
	printf("%5lld %-19s %8lld %-16s %7.0f %7.1f  %s", number(incident, "id"), when, number(incident, "pid"), comm,
	       json_number_value(json_object_get(incident, "last_s")), (double)number(incident, "bytes") / 1e6, why);
	if (left_out)
		printf("; %lld more before it came too soon and %s not kept", left_out, left_out == 1 ? "was" : "were");
	putchar('\n');
}

static int list(struct api_client *api, const struct incidents_request *request, struct so_error *err)
{
	json_t *all, *incident;
	size_t i;
	int ret = api_client__call(api, "GET", "/v1/incidents", NULL, &all, err);

	if (ret)
		return ret;
	if (request->as_json) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		printf("%5s %-19s %8s %-16s %7s %7s  %s\n", "ID", "WHEN", "PID", "COMM", "SECONDS", "MB", "WHY");
		json_array_foreach (all, i, incident)
			print_incident(incident);
	}
	json_decref(all);
	return 0;
}

static int write_profile(struct api_client *api, const struct incidents_request *request, struct so_error *err)
{
	static const struct render_options options = { 0 };
	_cleanup_(output) struct output *output = NULL;
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct format_source source = { 0 };
	char path[PATH_BYTES];
	int ret = output__open(request->output, &output, err);

	snprintf(path, sizeof(path), "/v1/incidents/%lu/profile", request->id);
	ret = ret ?: api_client__download(api, path, &bytes, &source.length, err);
	ret = ret ?: profile__read(bytes, source.length, &profile, err);
	if (ret)
		return ret;
	source.bytes = bytes;
	source.profile = profile;
	ret = format__write(request->format, &source, &options, output__file(output), err);
	if (!ret || ret == -EIO)
		ret = output__commit(output, err);
	return ret;
}

static int work(struct api_client *api, void *context, struct so_error *err)
{
	const struct incidents_request *request = context;
	char path[PATH_BYTES];
	int ret;

	if (!request->word)
		return list(api, request, err);
	if (!request->remove)
		return write_profile(api, request, err);
	snprintf(path, sizeof(path), "/v1/incidents/%lu", request->id);
	ret = api_client__call(api, "DELETE", path, NULL, NULL, err);
	if (!ret)
		printf("incident %lu is gone\n", request->id);
	return ret;
}

static int check(struct incidents_request *request, struct so_error *err)
{
	char *end;

	if (!request->word)
		return request->output || request->remove
			       ? so_err(err, -EINVAL, "which one? 'stakeout incidents' shows their IDs")
			       : 0;
	request->id = strtoul(request->word, &end, 10);
	if (end == request->word || *end || request->word[0] == '-')
		return so_err(err, -EINVAL, "'%.40s' is not the ID of an incident", request->word);
	if (request->remove)
		return request->output ? so_err(err, -EINVAL, "--remove or -o, not both") : 0;
	if (!request->output)
		return so_err(err, -EINVAL,
			      "where to? -o FILE: .pb.gz (for stakeout steps), .trace.json, .html, .folded");
	return format__from_path(request->output, &request->format, err)
		       ?: format__check_terminal(request->format, request->output, err);
}

int cmd_incidents(const struct globals *globals, int argc, char **argv)
{
	struct incidents_request request = { .word = NULL };
	const struct option_entry entries[] = {
		{ OPTION_TEXT, 'o', "output", "FILE", &request.output,
		  "write what incident ID has: pprof, or by the ending\nanother form: .trace.json, .html" },
		{ OPTION_ON, 0, "remove", NULL, &request.remove, "remove incident ID" },
		{ OPTION_ON, 0, "json", NULL, &request.as_json, "the list as JSON" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "incidents [--json] | incidents ID -o FILE | incidents ID --remove",
		.about = "What the running daemon kept of slow steps and the like, for 'attach --save-on', and by\n"
			 "'stakeout save': each the latest seconds of a process up to then, with times.",
		.entries = entries,
		.positional_value = &request.word,
	};
	struct so_error err = { .text = "" };
	int status = running__parse(&table, argc, argv);

	if (status >= 0)
		return status;
	if (check(&request, &err)) {
		message__error("%s (see stakeout incidents --help)", err.text);
		return STATUS_USAGE;
	}
	interrupt__install();
	return running__do(globals, work, &request);
}

struct save_request {
	pid_t pid;
	double last_s;
};

static int save(struct api_client *api, void *context, struct so_error *err)
{
	const struct save_request *request = context;
	struct target target;
	char path[PATH_BYTES];
	json_t *saved;
	int ret = target__find(api, request->pid, &target, err);

	if (ret)
		return ret;
	snprintf(path, sizeof(path), "/v1/targets/%u/save?last_s=%.3f", target.id, request->last_s);
	ret = api_client__call(api, "POST", path, NULL, &saved, err);
	if (ret)
		return ret;
	printf("incident %lld: the latest %.0f s of %d (%s); 'stakeout incidents %lld -o FILE' writes it\n",
	       number(saved, "id"), request->last_s, target.pid, target.comm, number(saved, "id"));
	json_decref(saved);
	return 0;
}

int cmd_save(const struct globals *globals, int argc, char **argv)
{
	struct save_request request = { .last_s = 30 };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process, which was attached with --timeline" },
		{ OPTION_DURATION, 0, "last", "SECONDS", &request.last_s, "so much of the latest (30)" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "save -p PID [--last SECONDS]",
		.about = "Keeps the latest seconds of a watched process with the incidents of the daemon.",
		.entries = entries,
		.find_process = named_process__find,
	};
	int status = running__parse_pid(&table, &request.pid, argc, argv);

	return status >= 0 ? status : running__do(globals, save, &request);
}
