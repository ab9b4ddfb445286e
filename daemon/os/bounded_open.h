/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens what open_in_root.h does where the path may lead to a file system that never answers: a file server that is
 * gone, or one that a user's program serves (FUSE).
 */
#ifndef STAKEOUT_BOUNDED_OPEN_H
#define STAKEOUT_BOUNDED_OPEN_H

#include <stdbool.h>

#include "daemon/os/file_reader.h"

/* So long it is waited for; beyond what a user may cost (bounded_call.h) it is not tried. */
#define BOUNDED_OPEN_MS 1000

/*
 * As open_in_root(); its first byte has been read. -EINPROGRESS, -EBUSY: it was not opened in time, or not tried.
 * -EACCES, too, where root would read a file of FUSE for another user: its program decides when a read returns.
 */
int bounded_open(const char *root, const char *path, bool follow, const struct file_reader *reader);

#endif
