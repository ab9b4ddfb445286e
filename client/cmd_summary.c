// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout summary: a watched process's profile so far, in a few lines. */
#include <stdlib.h>

#include "client/commands.h"
#include "client/profile.h"
#include "client/render.h"
#include "client/running.h"
#include "client/target.h"

static int summary(struct api_client *api, void *context, struct so_error *err)
{
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct target target;
	json_t *stats = NULL;
	size_t length = 0;
	int rc = target__find(api, *(pid_t *)context, &target, err);

	if (!rc)
		rc = target__profile(api, target.id, &bytes, &length, err);
	if (!rc)
		rc = profile__read(bytes, length, &profile, err);
	if (!rc)
		rc = target__stats(api, target.id, &stats, err);
	if (!rc)
		rc = render__summary(profile, stats, stdout, err);
	json_decref(stats);
	return rc;
}

int cmd_summary(const struct globals *globals, int argc, char **argv)
{
	pid_t pid = 0;
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &pid, "the process that is watched" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "summary -p PID",
		.about = "Shows in a few lines where a watched process has spent its time so far.",
		.entries = entries,
	};
	int status = running__parse_pid(&table, &pid, argc, argv);

	return status >= 0 ? status : running__do(globals, summary, &pid);
}
