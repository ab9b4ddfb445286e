// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/cpu_wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

static uint64_t waited_ns(int tasks, const char *tid)
{
	char name[64], text[96] = "";
	uint64_t waited = 0;
	_cleanup_close_ int fd = -1;

	snprintf(name, sizeof(name), "%.20s/schedstat", tid);
	fd = openat(tasks, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	return sscanf(text, "%*u %" SCNu64, &waited) == 1 ? waited : 0;
}

/* A directory has a link of each that lies in it. */
static unsigned count(int tasks)
{
	struct stat st;

	return fstat(tasks, &st) || st.st_nlink < 3 ? 1 : (unsigned)st.st_nlink - 2;
}

void cpu_wait__add(struct cpu_wait *sum, pid_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return;
	sum->n_threads += count(dirfd(dir));
	while (sum->n_read < CPU_WAIT_MOST_THREADS && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		sum->n_read++;
		sum->ns += waited_ns(dirfd(dir), entry->d_name);
	}
	closedir(dir);
}
