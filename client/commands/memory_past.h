/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `stakeout memory --since`: of the history, which also has processes that are gone. */
#ifndef STAKEOUT_CLIENT_MEMORY_PAST_H
#define STAKEOUT_CLIENT_MEMORY_PAST_H

#include <stdbool.h>
#include <sys/types.h>

#include "client/commands/commands.h"
#include "client/session/past.h"

/* Writes to standard output. Errors in words. */
int memory_past__show(const struct globals *globals, pid_t pid, const struct time_range *range, bool as_json,
		      struct so_error *err);

#endif
