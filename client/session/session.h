/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon that a command talks to: the running one, or a private one for as long as the command takes. */
#ifndef STAKEOUT_CLIENT_SESSION_H
#define STAKEOUT_CLIENT_SESSION_H

#include <stdbool.h>

#include "client/session/api_client.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

enum session_need {
	SESSION_RUNNING, /* a daemon that runs already: its targets are the point */
	SESSION_ANY,     /* else a private one */
};

struct session;

/* socket NULL: the default places. Errors in words, with what to do. */
int session__open(const char *socket, enum session_need need, struct session **out, struct so_error *err);
struct api_client *session__api(struct session *session);
bool session__private(const struct session *session);
void session__free(struct session *session);
CLEANUP_DEFINE(struct session *, session, session__free)

#endif
