// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout tasks: the tasks of a Python process's event loops, and what they wait for. */
#include <errno.h>
#include <stdlib.h>

#include "client/commands/commands.h"
#include "client/commands/running.h"
#include "client/session/interrupt.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/output.h"
#include "client/session/session.h"
#include "client/session/target.h"
#include "client/session/waiting_note.h"
#include "client/tasks/task_report.h"

#define DEFAULT_MOST 20
/* Samples are not what is asked for: it is a target so that its interpreter is known. */
#define RATE_HZ 19

struct tasks_request {
	pid_t pid;
	unsigned most;
	bool as_json;
};

static int look(const struct globals *globals, const struct tasks_request *request, json_t **answer,
		struct so_error *err)
{
	const struct attach_request attach = { .pid = request->pid, .rate_hz = RATE_HZ };
	_cleanup_(session) struct session *session = NULL;
	_cleanup_(waiting_note) struct waiting_note *note = NULL;
	struct target target;
	bool attached;
	int ret = session__open(globals->socket, SESSION_ANY, &session, err);

	if (ret)
		return ret;
	note = waiting_note__begin("looking at the tasks of process %d", request->pid);
	ret = target__attach(session__api(session), &attach, &target, err);
	attached = !ret;
	/* What the daemon watches already is looked at through that target. */
	if (ret == -EEXIST && !target__find(session__api(session), request->pid, &target, NULL))
		ret = 0;
	ret = ret ?: target__tasks(session__api(session), target.id, answer, err);
	/* A private daemon ends anyhow. */
	if (attached && !session__private(session))
		target__detach(session__api(session), target.id, NULL);
	return ret;
}

static int print(const struct tasks_request *request, const json_t *answer, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	int ret = output__open("-", &output, err);

	if (ret)
		return ret;
	if (!request->as_json)
		ret = task_report__print(answer, request->most, output__file(output), err);
	else if (json_dumpf(answer, output__file(output), JSON_INDENT(2) | JSON_REAL_PRECISION(6)))
		ret = so_err(err, -ENOMEM, "out of memory");
	else
		fputc('\n', output__file(output));
	return ret ?: output__commit(output, err);
}

int cmd_tasks(const struct globals *globals, int argc, char **argv)
{
	struct tasks_request request = { .most = DEFAULT_MOST };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process; or its name, or its script's" },
		{ OPTION_NUMBER, 'n', "groups", "N", OPTION_RANGE(&request.most, 1, 1000000),
		  "groups of equal tasks that are shown (20)" },
		{ OPTION_ON, 'j', "json", NULL, &request.as_json, "as JSON, with all tasks" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "tasks -p PID [OPTION]...",
		.about = "The tasks of asyncio in a process of CPython 3.14 or later: how many there are, where they\n"
			 "wait, innermost frame first, and which tasks await them. Equal ones are shown as one. The\n"
			 "process is not stopped: what changed while it was read is counted, not shown.",
		.entries = entries,
		.find_process = named_process__find,
	};
	struct so_error err = { .text = "" };
	json_t *answer = NULL;
	int status = running__parse_pid(&table, &request.pid, argc, argv), ret;

	if (status >= 0)
		return status;
	interrupt__install();
	ret = look(globals, &request, &answer, &err);
	ret = ret ?: print(&request, answer, &err);
	json_decref(answer);
	return running__end(ret, &err);
}
