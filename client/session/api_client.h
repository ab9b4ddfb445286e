/* SPDX-License-Identifier: GPL-2.0-or-later */
/* HTTP requests to a daemon's Unix socket. Every failure comes out as one line for the user. */
#ifndef STAKEOUT_CLIENT_API_CLIENT_H
#define STAKEOUT_CLIENT_API_CLIENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct api_client;

int api_client__new(const char *socket_path, struct api_client **out, struct so_error *err);
void api_client__free(struct api_client *client);
CLEANUP_DEFINE(struct api_client *, api_client, api_client__free)

/*
 * One request. path begins with "/v1/". body (may be NULL) is sent as JSON and stays the caller's; *out (out may
 * be NULL) is a new reference to the answer. Errors: -ECONNREFUSED when no daemon answers, -EIO when it goes
 * away, and what it refuses as -EINVAL, -EPERM, -ENOENT, -EEXIST, -ENOSPC.
 */
int api_client__call(struct api_client *client, const char *method, const char *path, const json_t *body, json_t **out,
		     struct so_error *err);
/* GET of bytes; *out is malloc'ed. */
int api_client__download(struct api_client *client, const char *path, uint8_t **out, size_t *length,
			 struct so_error *err);

/* The socket that it asks; the client's. */
const char *api_client__socket(const struct api_client *client);

/* An answer as it came, whatever its status. */
struct api_answer {
	unsigned status;
	char type[64];    /* Content-Type */
	char policy[512]; /* Content-Security-Policy; "" without */
	uint8_t *bytes;   /* malloc'ed; NULL when there are none */
	size_t length;
};

/*
 * A GET for somebody else, which may be given up: at a signal (interrupt.h), -ECANCELED. What the daemon refuses is an
 * answer; errors are those of talking to it. *out: its bytes are the caller's.
 */
int api_client__pass(struct api_client *client, const char *path, struct api_answer *out, struct so_error *err);

#endif
