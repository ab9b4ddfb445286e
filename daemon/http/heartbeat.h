/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a server on a Unix socket still takes connections and answers, asked as any client would. */
#ifndef STAKEOUT_HEARTBEAT_H
#define STAKEOUT_HEARTBEAT_H

#include <stdbool.h>

/*
 * Connects, asks for HEARTBEAT_PATH and waits up to timeout_ms for the answer's first bytes. True as well when the
 * server closes the connection without an answer, which one that has reached its limit does: it accepts, and others'
 * connections are no reason to end it.
 */
#define HEARTBEAT_PATH "/v1/alive"
bool heartbeat__serves(const char *socket_path, unsigned timeout_ms);

#endif
