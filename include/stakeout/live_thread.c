// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/live_thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Threads that have ended stay in the list only while a debugger has not looked at them. */
#define MAX_TRIES 256

/* A thread's link to its program goes with its memory. EACCES and the like say that somebody may read it. */
static bool has_memory(int proc_fd, pid_t tid)
{
	char path[64], byte;

	snprintf(path, sizeof(path), "%s%d/exe", proc_fd < 0 ? "/proc/" : "", tid);
	return readlinkat(proc_fd, path, &byte, 1) >= 0 || (errno != ENOENT && errno != ESRCH);
}

static DIR *open_threads(int proc_fd, pid_t pid)
{
	char path[64];
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%s%d/task", proc_fd < 0 ? "/proc/" : "", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

pid_t live_thread__in(int proc_fd, pid_t pid)
{
	unsigned tries = 0;
	struct dirent *entry;
	pid_t found = pid;
	DIR *dir;

	if (pid <= 0 || has_memory(proc_fd, pid))
		return pid;
	dir = open_threads(proc_fd, pid);
	while (dir && found == pid && tries < MAX_TRIES && (entry = readdir(dir))) {
		pid_t tid = atoi(entry->d_name);

		if (tid <= 0 || tid == pid)
			continue;
		tries++;
		if (has_memory(proc_fd, tid))
			found = tid;
	}
	if (dir)
		closedir(dir);
	return found;
}

pid_t live_thread__of(pid_t pid)
{
	return live_thread__in(-1, pid);
}
