/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The answer of GET /v1/status: the daemon's state, its rights, its limits, and what each target costs. */
#ifndef STAKEOUT_API_STATUS_H
#define STAKEOUT_API_STATUS_H

#include <jansson.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/history/history.h"

/* history: NULL: none. uid: who asks; costs are those of targets that it may see. New reference; NULL: no memory. */
json_t *api_status__json(struct engine *engine, struct history *history, struct caller caller);

#endif
