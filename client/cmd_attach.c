// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout attach: a target that the daemon keeps until it is detached. */
#include <stdio.h>

#include "client/commands.h"
#include "client/running.h"
#include "client/target.h"

static int attach(struct api_client *api, void *context, struct so_error *err)
{
	struct target target;
	int rc = target__attach(api, context, &target, err);

	if (!rc)
		printf("watching %d (%s) at %u Hz, target %u\n", target.pid, target.comm, target.rate_hz,
		       target.id);
	return rc;
}

int cmd_attach(const struct globals *globals, int argc, char **argv)
{
	struct attach_request request = { .rate_hz = 99, .children = true, .kernel = true, .keep = true };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process to watch" },
		{ OPTION_RATE, 'r', "rate", "HZ", &request.rate_hz, "samples a second of CPU time (99)" },
		{ OPTION_OFF, 0, "no-children", NULL, &request.children, "leave child processes out" },
		{ OPTION_OFF, 0, "no-kernel", NULL, &request.kernel, "leave kernel frames out" },
		{ OPTION_ON, 0, "cuda", NULL, &request.cuda, "time its CUDA calls as well" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "attach -p PID [OPTION]...",
		.about = "Lets the running daemon watch a process until 'stakeout detach' or its end.",
		.entries = entries,
	};
	int status = running__parse_pid(&table, &request.pid, argc, argv);

	return status >= 0 ? status : running__do(globals, attach, &request);
}
