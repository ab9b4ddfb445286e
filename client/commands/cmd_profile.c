// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout profile: a watched process's profile so far, as pprof. */
#include "client/commands/commands.h"
#include "client/commands/fetch.h"
#include "client/commands/running.h"
#include "client/session/named_process.h"
#include "client/render/format.h"
#include "client/session/message.h"

int cmd_profile(const struct globals *globals, int argc, char **argv)
{
	struct fetch_options options = { .output = "-", .format = FORMAT_PPROF };
	enum format format;
	struct so_error err = { .text = "" };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &options.pid, "the process that is watched" },
		PAST_SINCE(options.past),
		PAST_UNTIL(options.past),
		PAST_AT(options.past),
		{ OPTION_DURATION, 0, "last", "SECONDS", &options.last_s,
		  "of the latest seconds alone, of a process that was\nattached with --timeline" },
		{ OPTION_TEXT, 'o', "output", "FILE", &options.output,
		  "where to write (-: standard output); the ending may ask\nfor another form: .html, .trace.json" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "profile -p PID [OPTION]...",
		.about = "Writes the profile that the running daemon has of a process: pprof, gzip-compressed.\n"
			 "It holds everything; 'stakeout render' shows parts of it.",
		.entries = entries,
		.find_process = named_process__find,
	};
	int status = running__parse_pid(&table, &options.pid, argc, argv);

	if (status >= 0)
		return status;
	if (format__from_path(options.output, &format, &err)) {
		message__error("%s", err.text);
		return STATUS_USAGE;
	}
	if (format != FORMAT_FOLDED)
		options.format = format;
	if (format__check_terminal(options.format, options.output, &err)) {
		message__error("%s", err.text);
		return STATUS_USAGE;
	}
	return fetch__run(globals, &options);
}
