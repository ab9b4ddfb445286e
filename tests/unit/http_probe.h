/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An HTTP client that a test has in hand byte by byte. */
#ifndef STAKEOUT_TEST_HTTP_PROBE_H
#define STAKEOUT_TEST_HTTP_PROBE_H

#include <stddef.h>
#include <sys/types.h>

/* A directory of the test's own and a socket path in it; removed at exit of the process that made it. */
const char *http_probe__socket_path(void);
/* A connected descriptor; aborts the test on failure. */
int http_probe__connect(const char *path);
void http_probe__send(int fd, const char *bytes, size_t length);

struct http_answer {
	int status; /* 0: the server closed the connection without an answer */
	char headers[2048];
	char body[131072];
	size_t body_bytes;
};

/* Reads one answer with Content-Length, 10 seconds at most. */
struct http_answer http_probe__receive(int fd);
/* One request on a connection of its own; body NULL: none. */
struct http_answer http_probe__request(const char *path, const char *method, const char *url, const char *body);
/* The same from a process with that user ID (needs root). */
struct http_answer http_probe__request_as(uid_t uid, const char *path, const char *method, const char *url,
					  const char *body);
double http_probe__now_s(void);

#endif
