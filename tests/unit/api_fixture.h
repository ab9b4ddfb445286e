/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The API over a fake engine (fake_engine.h), behind a socket: what its tests share. */
#ifndef STAKEOUT_TEST_API_FIXTURE_H
#define STAKEOUT_TEST_API_FIXTURE_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/api/api.h"
#include "daemon/http/listen_socket.h"

struct fixture {
	struct engine *engine;
	struct match_scan *scan;
	struct api *api;
	struct listen_socket *sock;
	struct http_server *server;
};

/* cmocka's set-up and tear-down. impatient: leases end after fractions of a second. */
int api_fixture__setup(void **state);
int api_fixture__setup_impatient(void **state);
int api_fixture__teardown(void **state);

/*
 * A call without a connection, which must have that status; the answer's JSON is a new reference, or NULL for other
 * types.
 */
json_t *api_fixture__call(struct fixture *f, uid_t uid, const char *method, const char *path, const char *body,
			  unsigned status);
/* The same of an error, whose text must have the words. */
void api_fixture__expect_error(struct fixture *f, uid_t uid, const char *method, const char *path, const char *body,
			       unsigned status, const char *words);
/* The id of a new target. */
uint32_t api_fixture__attach(struct fixture *f, uid_t uid, const char *body);

#endif
