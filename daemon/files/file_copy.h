/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies of files that a user's program serves (FUSE). That program may stop answering, for a read as for a close, and
 * says of itself who owns the file; a copy is read without it.
 */
#ifndef STAKEOUT_FILE_COPY_H
#define STAKEOUT_FILE_COPY_H

#include <sys/types.h>

/*
 * Files of more than FILE_COPY_MAX_BYTES are not read; all copies at a time have FILE_COPY_ALL_BYTES, those of one user
 * other than root a quarter (limits.h, which counts what is not read).
 *
 * 0: the file is one of the kernel's own file systems; fd stays. 1: *fd is a copy in memory now, empty where the file
 * is larger than it may be, and the file is closed. -errno: it could not be read. May hang: see bounded_call.h. pid: a
 * process that maps it, uid: its user; in a user namespace of its own, what lies below an overlay may be such a file as
 * well. Thread-safe.
 */
int file_copy__replace(pid_t pid, uid_t uid, int *fd);
/* A descriptor of a copy for this user is about to be closed: its bytes are free for others. */
void file_copy__forget(int fd, uid_t uid);

#endif
