/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the small commands share: parse the options, talk to the running daemon, end with a fitting status. */
#ifndef STAKEOUT_CLIENT_RUNNING_H
#define STAKEOUT_CLIENT_RUNNING_H

#include "client/commands/commands.h"
#include "stakeout/options.h"
#include "client/session/session.h"
#include "stakeout/error.h"

/* The work of a command, once it has its daemon; returns 0 or -errno with words. */
typedef int running_fn(struct api_client *api, void *context, struct so_error *err);

/* After options__parse(): prints what is wrong. Returns an exit_status to end with, or -1 to go on. */
int running__parsed(int ret, const struct so_error *err);
/* Prints what was wrong; returns the exit_status. */
int running__end(int ret, const struct so_error *err);
/* Parses; prints what is wrong. Returns an exit_status to end with, or -1 to go on. */
int running__parse(const struct option_table *table, int argc, char **argv);
/* Also asks for -p PID to be given. */
int running__parse_pid(const struct option_table *table, const pid_t *pid, int argc, char **argv);
/* Connects, works, reports; returns an exit_status. */
int running__do(const struct globals *globals, running_fn *work, void *context);

/* A command that shows one answer of the API: with --json as it came, otherwise as print() has it. */
struct running_answer {
	const char *usage, *about; /* as struct option_table has them */
	const char *path;
	int (*print)(struct api_client *api, const json_t *answer, struct so_error *err);
};
int running__show(const struct globals *globals, const struct running_answer *answer, int argc, char **argv);

#endif
