/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens a regular file inside another root ("/" or "/proc/PID/root"). Symbolic links, absolute ones too, are
 * followed as a process with that root would follow them, so a file cannot lead out of its root. Targets choose such
 * paths: what they name is looked at before it is opened.
 */
#ifndef STAKEOUT_OPEN_IN_ROOT_H
#define STAKEOUT_OPEN_IN_ROOT_H

#include <stdbool.h>

#include "daemon/os/file_reader.h"

/*
 * path: below root, with or without a leading "/". follow: whether the last component may be a symbolic link. reader:
 * who must be able to read it; NULL: nobody but the caller.
 * Returns a read-only, close-on-exec fd, or -errno; -ENOENT too when it is not a regular file or one of the kernel's
 * own (/proc, /sys), -ELOOP for a link that is not followed, -EACCES when the reader may not. Nothing else is opened,
 * not even for a moment.
 */
int open_in_root(const char *root, const char *path, bool follow, const struct file_reader *reader);

/* Opens the regular file of a descriptor that was opened with O_PATH, as above. The descriptor stays the caller's. */
int open_regular(int path_fd, const struct file_reader *reader);

#endif
