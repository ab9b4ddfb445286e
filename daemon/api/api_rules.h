/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /v1/rules answers (.design/targets.md). */
#ifndef STAKEOUT_API_RULES_H
#define STAKEOUT_API_RULES_H

#include <jansson.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "daemon/http/http_server.h"
#include "daemon/rules/match_scan.h"
#include "stakeout/error.h"

/*
 * *out: a new reference. The request says whose rules are seen and set. scan: NULL where there are no rules, which is
 * -ENOENT. Errors as match_table__add() and match_table__remove(), in words; -EINVAL also for what is no such JSON.
 */
int api_rules__list(struct match_scan *scan, struct engine *engine, const struct http_request *request, json_t **out,
		    struct so_error *err);
int api_rules__add(struct match_scan *scan, const struct http_request *request, json_t **out, struct so_error *err);
int api_rules__remove(struct match_scan *scan, const struct http_request *request, uint32_t id, json_t **out,
		      struct so_error *err);

#endif
