// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout folded: a watched process's stacks so far. */
#include "client/commands/commands.h"
#include "client/commands/fetch.h"
#include "client/commands/running.h"
#include "client/session/named_process.h"
#include "client/render/selection.h"

int cmd_folded(const struct globals *globals, int argc, char **argv)
{
	struct fetch_options options = { .output = "-", .format = FORMAT_FOLDED };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &options.pid, "the process that is watched" },
		PAST_SINCE(options.past),
		PAST_UNTIL(options.past),
		PAST_AT(options.past),
		{ OPTION_TEXT, 'o', "output", "FILE", &options.output, "where to write (-: standard output)" },
		{ OPTION_ON, 't', "threads", NULL, &options.render.threads, "tell threads apart: comm-PID/TID" },
		SELECTION_GIL(options.render),
		SELECTION_ONLY(options.render),
		SELECTION_FUNCTIONS(options.render),
		SELECTION_PYTHON_ONLY(options.render),
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "folded -p PID [OPTION]...",
		.about = "Writes the folded stacks that the running daemon has of a process: all of them, or "
			 "those\n"
			 "of a time that its history holds.",
		.entries = entries,
		.find_process = named_process__find,
	};
	int status = running__parse_pid(&table, &options.pid, argc, argv);

	return status >= 0 ? status : fetch__run(globals, &options);
}
