// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout detach: the daemon forgets a target and its data. */
#include <stdio.h>

#include "client/commands.h"
#include "client/running.h"
#include "client/target.h"

static int detach(struct api_client *api, void *context, struct so_error *err)
{
	struct target target;
	int rc = target__find(api, *(pid_t *)context, &target, err);

	if (!rc)
		rc = target__detach(api, target.id, err);
	if (!rc)
		printf("no longer watching %d (%s): %llu samples in %.1f s\n", target.pid, target.comm,
		       (unsigned long long)target.samples, target.elapsed_s);
	return rc;
}

int cmd_detach(const struct globals *globals, int argc, char **argv)
{
	pid_t pid = 0;
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &pid, "the process that is watched" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "detach -p PID",
		.about = "Ends the running daemon's watch over a process, and drops what was sampled.",
		.entries = entries,
	};
	int status = running__parse_pid(&table, &pid, argc, argv);

	return status >= 0 ? status : running__do(globals, detach, &pid);
}
