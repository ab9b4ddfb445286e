/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A stakeoutd for one command, on a socket in its own directory. Nothing of it stays, even if the command is killed. */
#ifndef STAKEOUT_CLIENT_PRIVATE_DAEMON_H
#define STAKEOUT_CLIENT_PRIVATE_DAEMON_H

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct private_daemon;

/* Returns when it serves. -EPERM: it lacks privileges, -EINTR: the user interrupted; err says what to do. */
int private_daemon__start(struct private_daemon **out, struct so_error *err);
const char *private_daemon__socket(const struct private_daemon *daemon);
void private_daemon__free(struct private_daemon *daemon);
CLEANUP_DEFINE(struct private_daemon *, private_daemon, private_daemon__free)

/* What `stakeoutd --check-json` prints; *out is malloc'ed text. Needs no privileges. */
int private_daemon__check(char **out, struct so_error *err);

#endif
