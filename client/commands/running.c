// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/running.h"

#include "client/session/message.h"

int running__parsed(int ret, const struct so_error *err)
{
	if (ret == OPTIONS_GO_ON)
		return -1;
	if (ret == OPTIONS_HELP_SHOWN)
		return STATUS_DONE;
	message__error("%s", err->text);
	return STATUS_USAGE;
}

int running__end(int ret, const struct so_error *err)
{
	if (ret)
		message__error("%s", err->text);
	return ret ? STATUS_FAILED : STATUS_DONE;
}

int running__parse(const struct option_table *table, int argc, char **argv)
{
	struct so_error err = { .text = "" };

	return running__parsed(options__parse(table, argc, argv, &err), &err);
}

int running__parse_pid(const struct option_table *table, const pid_t *pid, int argc, char **argv)
{
	int status = running__parse(table, argc, argv);

	if (status >= 0 || *pid)
		return status;
	message__error("which process? Give its ID with -p PID");
	return STATUS_USAGE;
}

int running__do(const struct globals *globals, running_fn *work, void *context)
{
	_cleanup_(session) struct session *session = NULL;
	struct so_error err = { .text = "" };
	int ret = session__open(globals->socket, SESSION_RUNNING, &session, &err);

	ret = ret ?: work(session__api(session), context, &err);
	return running__end(ret, &err);
}

struct showing {
	const struct running_answer *answer;
	bool as_json;
};

static int show(struct api_client *api, void *context, struct so_error *err)
{
	const struct showing *s = context;
	json_auto_t *json = NULL;
	int ret = api_client__call(api, "GET", s->answer->path, NULL, &json, err);

	if (ret)
		return ret;
	if (!s->as_json)
		return s->answer->print(api, json, err);
	json_dumpf(json, stdout, JSON_INDENT(2));
	putchar('\n');
	return 0;
}

int running__show(const struct globals *globals, const struct running_answer *answer, int argc, char **argv)
{
	struct showing s = { .answer = answer };
	const struct option_entry entries[] = {
		{ OPTION_ON, 0, "json", NULL, &s.as_json, "as the API gives it" },
		{ OPTION_END },
	};
	const struct option_table table = { .usage = answer->usage, .about = answer->about, .entries = entries };
	int status = running__parse(&table, argc, argv);

	return status >= 0 ? status : running__do(globals, show, &s);
}
