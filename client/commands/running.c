// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/running.h"

#include "client/session/message.h"

int running__parse(const struct option_table *table, int argc, char **argv)
{
	struct so_error err = { .text = "" };
	int rc = options__parse(table, argc, argv, &err);

	if (rc == OPTIONS_GO_ON)
		return -1;
	if (rc == OPTIONS_HELP_SHOWN)
		return STATUS_DONE;
	message__error("%s", err.text);
	return STATUS_USAGE;
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
	int rc = session__open(globals->socket, SESSION_RUNNING, &session, &err);

	if (!rc)
		rc = work(session__api(session), context, &err);
	if (rc)
		message__error("%s", err.text);
	return rc ? STATUS_FAILED : STATUS_DONE;
}
