/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens a regular file inside another root ("/" or "/proc/PID/root"). Symbolic links, absolute ones too, are
 * followed as a process with that root would follow them, so a file cannot lead out of its root.
 */
#ifndef STAKEOUT_OPEN_IN_ROOT_H
#define STAKEOUT_OPEN_IN_ROOT_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "stakeout/cleanup.h"

/*
 * path: below root, with or without a leading "/". follow: whether the last component may be a symbolic link.
 * Returns a read-only, close-on-exec fd, or -errno; -ENOENT too when it is not a regular file. A FIFO or a
 * terminal in its place neither blocks nor takes effect.
 */
static inline int open_in_root(const char *root, const char *path, bool follow)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT,
	};
	_cleanup_close_ int root_fd = -1, fd = -1;
	struct stat st;

	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	while (*path == '/')
		path++;
	fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	return TAKE_FD(fd);
}

#endif
