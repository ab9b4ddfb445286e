/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A watched process's profile so far, written in one form: what folded and profile do. */
#ifndef STAKEOUT_CLIENT_FETCH_H
#define STAKEOUT_CLIENT_FETCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/commands/commands.h"
#include "client/render/format.h"
#include "client/session/past.h"

struct fetch_options {
	pid_t pid;
	struct past_options past; /* none: since it is watched */
	double last_s;            /* the latest seconds alone; 0: all */
	const char *output;
	enum format format;
	struct render_options render;
	struct time_range range; /* fetch__run()'s own */
};

/* Returns an exit_status: STATUS_USAGE where the range is no range. */
int fetch__run(const struct globals *globals, struct fetch_options *options);

#endif
