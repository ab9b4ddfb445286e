/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a thread that does not run waits for, by the functions in its stack (.design/waiting.md has the table). */
#ifndef STAKEOUT_WAIT_STATE_H
#define STAKEOUT_WAIT_STATE_H

#include "daemon/profile/profile_builder.h"

/*
 * locations: the builder's, leaf first. One of "gil", "object-lock", "stop-the-world", "lock", "sleep", "io-disk",
 * "io-net", "pipe", "poll", "gpu", "page-fault", "child", "signal", "stopped", "idle"; "waiting" for what is none of
 * them.
 */
const char *wait_state__of(const struct profile_builder *builder, const uint64_t *locations, size_t n);

#endif
