// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/memory_past.h"

#include <errno.h>

#include "client/memory/memory_trend.h"
#include "client/session/output.h"
#include "client/session/session.h"

static int print(const struct memory_trend *trend, bool as_json, struct so_error *err)
{
	_cleanup_(output) struct output *output = NULL;
	json_auto_t *json = NULL;
	int ret = output__open("-", &output, err);

	if (ret)
		return ret;
	if (!as_json) {
		memory_trend__print(trend, output__file(output));
		return output__commit(output, err);
	}
	json = memory_trend__json(trend);
	if (!json || json_dumpf(json, output__file(output), JSON_INDENT(2) | JSON_REAL_PRECISION(15)))
		return so_err(err, -ENOMEM, "out of memory");
	fputc('\n', output__file(output));
	return output__commit(output, err);
}

int memory_past__show(const struct globals *globals, pid_t pid, const struct time_range *range, bool as_json,
		      struct so_error *err)
{
	_cleanup_(memory_trend) struct memory_trend trend = { .n = 0 };
	_cleanup_(session) struct session *session = NULL;
	json_auto_t *answer = NULL;
	int ret = session__open(globals->socket, SESSION_RUNNING, &session, err);

	ret = ret ?: past__memory(session__api(session), pid, range, &answer, err);
	ret = ret ?: memory_trend__read(answer, pid, &trend, err);
	return ret ?: print(&trend, as_json, err);
}
