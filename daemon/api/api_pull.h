/* SPDX-License-Identifier: GPL-2.0-or-later */
/* GET /debug/pprof/profile: what profile pullers ask for (.design/api.md). */
#ifndef STAKEOUT_API_PULL_H
#define STAKEOUT_API_PULL_H

#include "daemon/engine/engine.h"
#include "daemon/http/http_server.h"
#include "daemon/api/lease.h"

/* The request's argument `pid`; 0: it has none. -EINVAL. */
int api_pull__read_pid(const struct http_request *request, pid_t *pid, struct so_error *err);

struct api_pull {
	struct engine *engine;
	struct leases *leases;
	const struct http_request *request;
	int cancel_fd; /* readable: the daemon ends */
};

/*
 * Records for as long as the request says, and gives the profile, gzip-compressed, malloc'ed: of the process `pid`,
 * which is watched for that time if it is not yet, or without `pid` of all watched ones that the caller may see, those
 * included that come meanwhile, added up; where there was none that is a profile without samples. A request that is
 * read_only gets what is watched already. Ends early when the client hangs up (-ECANCELED), or with the one process.
 * Otherwise as engine__attach(), engine__profile(); -EINVAL: wrong arguments.
 */
int api_pull__run(const struct api_pull *pull, uint8_t **out, size_t *length, struct so_error *err);

#endif
