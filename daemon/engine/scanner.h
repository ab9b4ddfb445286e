/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads a process's mappings and what their files hold. Without the engine's lock, which it takes for moments. */
#ifndef STAKEOUT_SCANNER_H
#define STAKEOUT_SCANNER_H

#include "daemon/engine/process_life.h"

struct scanner {
	pthread_mutex_t *lock; /* the engine's */
	struct file_registry *files;
	struct pythons *pythons;
	struct process_life life;
};

/* -EBUSY: its memory cannot be read now, but will be later; -EPERM: another user's; -ESRCH, -ENOENT: it has gone. */
int scanner__scan(const struct scanner *s, const struct scan_work *work);

#endif
