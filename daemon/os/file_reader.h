/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which files a process's user may read: root reads for it, and must not read what it could not. */
#ifndef STAKEOUT_FILE_READER_H
#define STAKEOUT_FILE_READER_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#define FILE_READER_MAX_GROUPS 64 /* more do not count: what they alone may read is not read */

struct file_reader {
	uid_t uid; /* the real ones: of a set-user-ID program those of who started it */
	gid_t gid;
	gid_t groups[FILE_READER_MAX_GROUPS];
	unsigned n_groups;
};

/* From /proc/PID/status. -ESRCH: there is no such process; -errno. */
int file_reader__of(pid_t pid, struct file_reader *out);
/* From the text of such a file. False: it is none. */
bool file_reader__parse(const char *status, struct file_reader *out);
/* By owner, groups and mode, as the kernel decides for a file without an access control list. */
bool file_reader__may_read(const struct file_reader *reader, const struct stat *st);

#endif
