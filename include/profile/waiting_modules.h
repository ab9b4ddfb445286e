/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modules of Python's standard library that others wait with: in a stack the frame that calls them says more. */
#ifndef STAKEOUT_PROFILE_WAITING_MODULES_H
#define STAKEOUT_PROFILE_WAITING_MODULES_H

#include <stdbool.h>

#include "stakeout/short_path.h"

static inline bool is_waiting_module(const char *filename)
{
	static const char *const names[] = { "threading.py", "queue.py",       "connection.py", "selectors.py",
					     "socket.py",    "synchronize.py", "subprocess.py", "popen_fork.py",
					     "queues.py",    "ssl.py",         "process.py" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(short_path(filename), names[i]))
			return true;
	return false;
}

#endif
