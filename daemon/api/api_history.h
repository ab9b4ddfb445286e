/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ranges of time in requests about the history (.design/history.md). */
#ifndef STAKEOUT_API_HISTORY_H
#define STAKEOUT_API_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/history/history.h"
#include "daemon/http/http_server.h"
#include "stakeout/error.h"

struct history_range {
	int64_t from_ns, to_ns; /* since 1970-01-01 UTC */
};

/* -ENODATA, in words for the user, where no history is kept. */
int api_history__check(const struct history *history, struct so_error *err);
/* Whether ?since= or ?until= is there. */
bool api_history__wants_range(const struct http_request *request);
/* ?since=SECONDS&until=SECONDS, both ago; absent: all, and now. -EINVAL, in words. */
int api_history__ago(const struct http_request *request, struct history_range *out, struct so_error *err);
/* ?from_ns=N&to_ns=N; absent: 0, and now. -EINVAL, in words. */
int api_history__range(const struct http_request *request, struct history_range *out, struct so_error *err);

#endif
