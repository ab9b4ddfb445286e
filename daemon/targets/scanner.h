/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the mappings of a process, and with them what else is found in its files: its program, interpreter, CUDA
 * libraries, labels. Files take long to read, and those that a user's program serves may never be: without the engine's
 * lock, which is taken for moments, and as a bounded_call.
 */
#ifndef STAKEOUT_SCANNER_H
#define STAKEOUT_SCANNER_H

#include "daemon/targets/allocations.h"
#include "daemon/targets/gpu_memory.h"
#include "daemon/targets/process_life.h"

struct scanner {
	pthread_mutex_t *lock; /* the engine's */
	struct file_registry *files;
	struct pythons *pythons;
	struct gpu_memory *gpu_memory;
	struct allocations *allocations;
	struct process_life life;
	/* Under the lock. */
	unsigned under_way; /* scans, also such as nobody waits for any more */
	bool late;          /* one of those has ended since this was last reset */
	bool stopping;      /* they are to change nothing more */
};

/* How long the next scan waits for this one; and who attaches, for the mappings of the target alone. */
#define SCANNER_PATIENCE_MS        500
#define SCANNER_ATTACH_PATIENCE_MS 5000

/*
 * -EINPROGRESS: it takes longer than patience_ms, and goes on by itself; -EBUSY: the process hangs, and will be scanned
 * later; -EPERM: it is another user's; -ESRCH, -ENOENT: it has gone. Without the lock.
 */
int scanner__scan(struct scanner *s, const struct scan_work *work, unsigned patience_ms);
/*
 * Scans change nothing from now on. Waits a while for those that are under way; false: some hang, and what they use
 * must stay. Without the lock.
 */
bool scanner__stop(struct scanner *s);

#endif
