/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of /proc/PID as several parts read them, proc(5). */
#ifndef STAKEOUT_PROC_FILE_H
#define STAKEOUT_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/proc_stat.h"

#define PROC_FILE_HERE (-1) /* the daemon's own /proc */

/*
 * What the process's file `name` begins with, size - 1 bytes at most, and a NUL; another thread's where the first one
 * has ended and its file is empty (stakeout/live_thread.h). proc_fd: an open directory, or PROC_FILE_HERE. Returns the
 * number of bytes. -ESRCH: there is no such process; -errno.
 */
ssize_t proc_file__read(int proc_fd, pid_t pid, const char *name, char *buf, size_t size);

/*
 * The real user of the process, by its file "status"; the owner of /proc/PID is root's for a process that made itself
 * unreadable. Errors as above.
 */
int proc_file__uid(int proc_fd, pid_t pid, uid_t *uid);

#endif
