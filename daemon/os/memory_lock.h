/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a process's memory can be looked at without waiting for ever.
 *
 * The kernel locks a process's map of memory for whoever reads /proc/PID/cmdline, environ, maps, map_files or mem, or
 * calls process_vm_readv(). A thread in uninterruptible sleep (a dead file server, a hung driver) may hold that lock,
 * and then each such read hangs, as ps does, until it lets go. So before the daemon reads, a thread that it can do
 * without tries.
 */
#ifndef STAKEOUT_MEMORY_LOCK_H
#define STAKEOUT_MEMORY_LOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* fork() and munmap() of a large process hold the lock for some 100 ms. */
#define MEMORY_LOCK_PATIENCE_MS 1000
/* Processes that can hang at once, each with a thread that waits for it. */
#define MEMORY_LOCK_MAX_STUCK 32

/*
 * 0: it can be read now, or there is no such process. -EBUSY: it could not within MEMORY_LOCK_PATIENCE_MS, or as many
 * as above hang already; said at once while it goes on, and logged when it begins and ends. Any thread may ask.
 */
int memory_lock__check(pid_t pid);

/* As code_reader__read(), 0 where memory_lock__check() says -EBUSY. */
size_t memory_lock__read(pid_t pid, uint64_t address, void *buf, size_t size);

/* Processes that hang now. */
unsigned memory_lock__stuck(void);

#endif
