/* SPDX-License-Identifier: GPL-2.0-or-later */
/* GET /v1/history/KEY/series: what a history's time went into, slice by slice (.design/history.md). */
#ifndef STAKEOUT_API_SERIES_H
#define STAKEOUT_API_SERIES_H

#include <jansson.h>

#include "daemon/metrics/category_counters.h"
#include "daemon/http/http_server.h"
#include "daemon/history/history.h"
#include "stakeout/error.h"

#define API_SERIES_DEFAULT     60 /* slices */
#define API_SERIES_MAX         240
#define API_SERIES_PATIENCE_NS ((uint64_t)10000000000) /* for adding up windows */

/*
 * Both may be NULL, where the daemon has none: -ENODATA. -EINVAL: the arguments; -EFBIG: more windows than there is
 * patience for; others as history__windows()'s. *out: a new reference.
 */
int api_series__get(struct history *history, struct category_counters *counters, const struct http_request *request,
		    int64_t key, json_t **out, struct so_error *err);

#endif
