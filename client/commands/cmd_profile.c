// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout profile: a watched process's profile so far, as pprof. */
#include <unistd.h>

#include "client/commands/commands.h"
#include "client/commands/fetch.h"
#include "client/session/message.h"
#include "client/commands/running.h"

int cmd_profile(const struct globals *globals, int argc, char **argv)
{
	struct fetch_options options = { .format = FORMAT_PPROF };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &options.pid, "the process that is watched" },
		PAST_SINCE(options.past),
		PAST_UNTIL(options.past),
		PAST_AT(options.past),
		{ OPTION_TEXT, 'o', "output", "FILE", &options.output, "where to write (-: standard output)" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "profile -p PID [OPTION]...",
		.about = "Writes the profile that the running daemon has of a process: pprof, gzip-compressed.\n"
			 "It holds everything; 'stakeout render' shows parts of it.",
		.entries = entries,
	};
	int status = running__parse_pid(&table, &options.pid, argc, argv);

	if (status >= 0)
		return status;
	if (!options.output && isatty(STDOUT_FILENO)) {
		message__error("a pprof file is not for a terminal: use -o FILE");
		return STATUS_USAGE;
	}
	if (!options.output)
		options.output = "-";
	return fetch__run(globals, &options);
}
