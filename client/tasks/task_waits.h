/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a task waits for, by the innermost of its frames. */
#ifndef STAKEOUT_CLIENT_TASK_WAITS_H
#define STAKEOUT_CLIENT_TASK_WAITS_H

#include <jansson.h>

/* frames: outermost first. NULL: none of asyncio's own, so it awaits a future or a task by itself. */
const char *task_waits__for(const json_t *frames);

#endif
