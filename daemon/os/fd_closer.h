/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Closes descriptors in threads of its own, oldest first, up to 64 at once: to take away the probes of a link for many
 * uprobes the kernel waits for grace periods, 16 to 100 ms, which pass for all at the same time. All functions may be
 * called by any thread.
 *
 * Where a thread sleeps in a call whose return is probed, as one does that waits for the GPU, that takes 0.1 s more
 * since Linux 6.13 (SRCU), though the probes are gone: such a link *lingers*. /proc/.../wchan tells; where it does not,
 * nothing is said to linger.
 */
#ifndef STAKEOUT_FD_CLOSER_H
#define STAKEOUT_FD_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

struct fd_closer;

/* -ENOMEM, -errno of making a thread. */
int fd_closer__new(struct fd_closer **out);
/* Takes fd, which is closed soon; at once when there is no memory. tag: anything by which it is asked for. */
void fd_closer__give(struct fd_closer *closer, int fd, uint64_t tag);
/* Whether something is neither closed nor lingers whose tag is `tag` in the bits of `mask`; mask 0: anything. */
bool fd_closer__has(struct fd_closer *closer, uint64_t tag, uint64_t mask);
/* Returns when that is no longer so. */
void fd_closer__wait(struct fd_closer *closer, uint64_t tag, uint64_t mask);
/* Returns when all such are closed. */
void fd_closer__drain(struct fd_closer *closer, uint64_t tag, uint64_t mask);
/* Closes what is left. NULL is fine. */
void fd_closer__free(struct fd_closer *closer);
CLEANUP_DEFINE(struct fd_closer *, fd_closer, fd_closer__free)

#endif
