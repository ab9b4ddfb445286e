// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout summary: a watched process's profile so far, in a few lines. */
#include <stdlib.h>

#include "client/commands.h"
#include "client/profile.h"
#include "client/render.h"
#include "client/running.h"
#include "client/selection.h"
#include "client/target.h"

struct summary_request {
	pid_t pid;
	struct render_options render;
};

static int summary(struct api_client *api, void *context, struct so_error *err)
{
	const struct summary_request *request = context;
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct target target;
	json_t *stats = NULL;
	size_t length = 0;
	int rc = target__find(api, request->pid, &target, err);

	if (!rc)
		rc = target__profile(api, target.id, &bytes, &length, err);
	if (!rc)
		rc = profile__read(bytes, length, &profile, err);
	if (!rc)
		rc = selection__check(profile, &request->render, err);
	if (!rc)
		rc = target__stats(api, target.id, &stats, err);
	if (!rc)
		rc = render__summary_of(profile, stats, &request->render, stdout, err);
	json_decref(stats);
	return rc;
}

int cmd_summary(const struct globals *globals, int argc, char **argv)
{
	struct summary_request request = { 0 };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process that is watched" },
		SELECTION_GIL(request.render),
		SELECTION_PYTHON_ONLY(request.render),
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "summary -p PID [OPTION]...",
		.about = "Shows in a few lines where a watched process has spent its time so far.",
		.entries = entries,
	};
	int status = running__parse_pid(&table, &request.pid, argc, argv);

	return status >= 0 ? status : running__do(globals, summary, &request);
}
