/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HTTP/1.1 on a listening Unix socket, or on a TCP one with a token: reads requests, knows who sent them, hands them to
 * one handler, sends its replies. Each connection has a thread of its own, so a handler may block and a slow client
 * delays nobody.
 */
#ifndef STAKEOUT_HTTP_SERVER_H
#define STAKEOUT_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/http/peer.h"
#include "daemon/http/token.h"
#include "daemon/os/limits.h"
#include "daemon/os/process_access.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define HTTP_RESERVED_CONNECTIONS 32 /* of HTTP_MAX_CONNECTIONS: for root, and members of the group, alone */
#define HTTP_IDLE_TIMEOUT_S       30

struct http_request {
	const char *method;
	const char *path; /* percent-decoded, without the query */
	const char *body; /* ends with a NUL that body_bytes does not count */
	size_t body_bytes;
	/* Whose rights it has: the peer's when it connected; root's for one with the token or of the group. */
	struct caller caller;
	uid_t peer_uid;   /* of the peer itself; (uid_t)-1: over TCP */
	pid_t peer_pid;   /* 0: not known */
	bool read_only;   /* it may look at everything the caller may, and change nothing */
	int fd;           /* the connection, only to notice that the client hung up */
	void *connection; /* the server's own */
};

/* Value of ?name=…, percent-decoded; NULL when absent. Lives as long as the request. */
const char *http_request__argument(const struct http_request *request, const char *name);

struct http_header {
	const char *name, *value;
};

/* Nothing that is answered is kept by a cache, or taken for another type than it says. */
struct http_reply {
	unsigned status;
	const char *content_type;
	const char *header; /* name of one more header, or NULL */
	char header_value[64];
	const struct http_header *more_headers; /* constant; up to one without a name; NULL: none */
	uint8_t *body;                          /* malloc'ed; the server frees it */
	const char *text;                       /* instead of body: a constant */
	size_t body_bytes;
};

/* Fills *reply, which comes zeroed. Called from several threads at once. */
typedef void http_handler_fn(void *context, const struct http_request *request, struct http_reply *reply);

struct http_server;

/*
 * listen_fd is the server's from here on, also on failure. Requests of members of group come as root's (PEER_NO_GROUP:
 * none). token NULL: a Unix socket. Otherwise a TCP one, where nobody says who the peer is: a request whose
 * Authorization header does not match is answered 401 before its body is read, or with one of the pages that are for
 * everyone (pages.h); one that does comes as root's, read-only. Up to HTTP_MAX_CONNECTIONS, not counted by user. The
 * token stays the caller's and must live longer.
 */
int http_server__start(int listen_fd, gid_t group, const struct token *token, http_handler_fn *handler, void *context,
		       struct http_server **out, struct so_error *err);
/* Waits until no handler runs any more. */
void http_server__free(struct http_server *server);
CLEANUP_DEFINE(struct http_server *, http_server, http_server__free)

#endif
