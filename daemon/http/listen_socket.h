/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's listening Unix socket: where it lies, who may connect, and that only one daemon owns it. */
#ifndef STAKEOUT_LISTEN_SOCKET_H
#define STAKEOUT_LISTEN_SOCKET_H

#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define LISTEN_SOCKET_DEFAULT_MODE 0600
#define LISTEN_SOCKET_GROUP_MODE   0660 /* where a group may connect */

struct listen_socket;

/*
 * Binds and listens. path NULL: /run/stakeout/stakeoutd.sock for root, otherwise
 * $XDG_RUNTIME_DIR/stakeout/stakeoutd.sock; the directory of a default path is made when missing. The socket of
 * a daemon that died is replaced; -EADDRINUSE when a daemon listens there; -EEXIST when something else lies at
 * the path; -ENAMETOOLONG. The file is that group's before anybody can connect; (gid_t)-1: stays as the kernel makes
 * it.
 */
int listen_socket__open(const char *path, mode_t mode, gid_t group, struct listen_socket **out, struct so_error *err);
const char *listen_socket__path(const struct listen_socket *sock);
/* Hands the descriptor on; the socket file stays this object's. */
int listen_socket__take_fd(struct listen_socket *sock);
/* Removes the socket file, unless somebody replaced it. */
void listen_socket__free(struct listen_socket *sock);
CLEANUP_DEFINE(struct listen_socket *, listen_socket, listen_socket__free)

#endif
