/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The routes of the HTTP API (.design/api.md) over an engine, and who may use them on which target. */
#ifndef STAKEOUT_API_H
#define STAKEOUT_API_H

#include "daemon/metrics/category_windows.h"
#include "daemon/engine/engine.h"
#include "daemon/history/history.h"
#include "daemon/incidents/incidents.h"
#include "daemon/http/http_server.h"
#include "daemon/rules/match_scan.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct api_options {
	/* How long a recording (a target that nobody asked to keep) may last without any request; 0: the default. */
	double ended_idle_s;         /* an ended one is forgotten after this, default 300 */
	double running_idle_s;       /* one without a duration is stopped after this, default 60 */
	struct incidents *incidents; /* the same as the history; NULL: none */
	struct history *history;     /* of the targets that are kept; the caller's, must live longer; NULL: none */
	struct match_scan *scan;     /* of the rules; the same */
	struct category_counters *categories;      /* of the targets that are kept; the same */
	struct category_windows *category_windows; /* what counts them; NULL: the history does */
};

struct api;

/* The engine stays the caller's and must live longer. */
int api__new(struct engine *engine, const struct api_options *options, struct api **out, struct so_error *err);
/* An http_handler_fn; context is the api. */
void api__handle(void *context, const struct http_request *request, struct http_reply *reply);
/* Ends requests that wait for a recording, so that the server can stop. */
void api__cancel(struct api *api);
/* Call when no handler runs any more. */
void api__free(struct api *api);
CLEANUP_DEFINE(struct api *, api, api__free)

#endif
