/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that V8 (Node.js) writes to /tmp/perf-PID.map: "LazyCompile:*renderPage /app/server.js:15", since 2021 with
 * ":COLUMN" behind. The letter before the name says by which compiler: '~' none, '^', '+' or '*'. Source: V8's
 * src/logging/log.cc.
 */
#ifndef STAKEOUT_V8_NAME_H
#define STAKEOUT_V8_NAME_H

#include <stdbool.h>
#include <stdint.h>

struct v8_name {
	char *function;   /* "(anonymous)" where it has no name */
	const char *file; /* a path, or "node:internal/…" */
	int64_t line;     /* where the function begins, from 1 */
};

/* Cuts the text, to which the parts then point. False: it is no such name, and unchanged. */
bool v8_name__split(char *text, struct v8_name *out);

#endif
