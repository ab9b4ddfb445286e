/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The live page, and the flame graph's that it fills in: both are built in, say nothing of this machine, and need no
 * token.
 */
#ifndef STAKEOUT_PAGES_H
#define STAKEOUT_PAGES_H

#include <stdbool.h>

#include "daemon/http/http_server.h"

/* The page at a path, with the headers that keep it to its own origin. False: there is none; *reply is untouched. */
bool pages__get(const char *path, struct http_reply *reply);

#endif
