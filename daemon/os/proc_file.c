// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/proc_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

static ssize_t read_file(int proc_fd, pid_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = -1;
	size_t used = 0;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s%d/%s", proc_fd < 0 ? "/proc/" : "", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while (used < size - 1 && (n = read(fd, buf + used, size - 1 - used)) != 0) {
		if (n < 0)
			return -errno;
		used += (size_t)n;
	}
	buf[used] = '\0';
	return (ssize_t)used;
}

/* What tells of memory is empty below a first thread that has ended, or refused. */
ssize_t proc_file__read(int proc_fd, pid_t pid, const char *name, char *buf, size_t size)
{
	ssize_t n = read_file(proc_fd, pid, name, buf, size);
	pid_t live = n && n != -ESRCH ? pid : live_thread__in(proc_fd, pid);

	return live == pid ? n : read_file(proc_fd, live, name, buf, size);
}

int proc_file__uid(int proc_fd, pid_t pid, uid_t *uid)
{
	char text[4096];
	const char *at;
	ssize_t n = proc_file__read(proc_fd, pid, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	at = strstr(text, "\nUid:");
	return at && sscanf(at + strlen("\nUid:"), " %u", uid) == 1 ? 0 : -ESRCH;
}
