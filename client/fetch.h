/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A watched process's profile so far, written in one form: what folded and profile do. */
#ifndef STAKEOUT_CLIENT_FETCH_H
#define STAKEOUT_CLIENT_FETCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/commands.h"
#include "client/format.h"

struct fetch_options {
	pid_t pid;
	const char *output;
	enum format format;
	struct render_options render;
};

/* Returns an exit_status. */
int fetch__run(const struct globals *globals, struct fetch_options *options);

#endif
