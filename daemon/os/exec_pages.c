// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/exec_pages.h"

#include <stdio.h>
#include <unistd.h>

#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

uint64_t exec_pages__read(pid_t tgid)
{
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long kb, sum = 0;
	char path[32], line[256];

	snprintf(path, sizeof(path), "/proc/%d/status", live_thread__of(tgid));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmExe: %llu", &kb) == 1 || sscanf(line, "VmLib: %llu", &kb) == 1)
			sum += kb;
	}
	return sum * 1024 / (uint64_t)sysconf(_SC_PAGESIZE);
}
