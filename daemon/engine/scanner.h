/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the mappings of a process, and with them what else is found in its files: its program, interpreter, CUDA
 * libraries, labels. Files take long to read: without the engine's lock, which is taken for moments.
 */
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
