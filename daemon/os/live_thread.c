// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/live_thread.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/os/proc_file.h"
#include "stakeout/proc_stat.h"

#define STAT_BYTES 1024

static bool lives(pid_t thread)
{
	char text[STAT_BYTES];
	struct proc_stat stat;

	return proc_file__read(PROC_FILE_HERE, thread, "stat", text, sizeof(text)) > 0 &&
	       proc_stat__parse(text, &stat) && stat.state != 'Z' && stat.state != 'X';
}

pid_t live_thread__of(pid_t pid)
{
	struct dirent *entry;
	pid_t found = 0;
	char path[64];
	DIR *dir;

	if (lives(pid))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		pid_t thread = atoi(entry->d_name);

		if (thread > 0 && thread != pid && lives(thread))
			found = thread;
	}
	if (dir)
		closedir(dir);
	return found;
}
