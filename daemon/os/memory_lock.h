/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads of a process's memory that end, whatever the process does.
 *
 * The kernel locks a process's map of memory for whoever reads /proc/PID/cmdline, environ, maps, map_files or mem, or
 * calls process_vm_readv(). A thread in uninterruptible sleep (a dead file server, a hung driver) may hold that lock,
 * and then each such read hangs, as ps does, until it lets go. A read of memory may also hang by itself, at a page of a
 * file that a user's program serves. So both are made as a bounded_call.
 */
#ifndef STAKEOUT_MEMORY_LOCK_H
#define STAKEOUT_MEMORY_LOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/thread_catch.h"

/* fork() and munmap() of a large process hold the lock for some 100 ms. */
#define MEMORY_LOCK_PATIENCE_MS 500
/* Whoever reads memory may hold a lock that others wait for. */
#define MEMORY_LOCK_READ_MS 100

/*
 * 0: the lock can be had now, or there is no such process. -EBUSY: not within MEMORY_LOCK_PATIENCE_MS, or a call about
 * the process hangs already; see bounded_call__make(). Thread-safe.
 */
int memory_lock__check(pid_t pid);
/* The same within MEMORY_LOCK_READ_MS, for who holds a lock. */
int memory_lock__check_now(pid_t pid);

/*
 * Returns the bytes read, up to the first page that is not there; 0 when none could be within MEMORY_LOCK_READ_MS, and
 * then nothing is written to buf. Thread-safe.
 */
size_t memory_lock__read(pid_t pid, uint64_t address, void *buf, size_t size);

/*
 * thread_catch() of n threads of one process, MEMORY_LOCK_CATCH at most, within MEMORY_LOCK_READ_MS in all. Returns how
 * many were caught, from the first one on. Thread-safe.
 */
#define MEMORY_LOCK_CATCH 16
size_t memory_lock__catch(const struct thread_catch_request *requests, struct thread_memory *out, size_t n);

/*
 * memory_helper__work() about a process, of so many things, for who holds no lock: within MEMORY_LOCK_PATIENCE_MS in
 * all, 0 when it takes longer. Thread-safe.
 */
size_t memory_lock__work(pid_t pid, const void *request, size_t bytes, unsigned things, void *answer);

/*
 * proc_file__read() of a file that needs the lock, within MEMORY_LOCK_PATIENCE_MS: -EBUSY when it takes longer.
 * proc_fd stays open as long as the program runs.
 */
ssize_t memory_lock__read_file(int proc_fd, pid_t pid, const char *name, char *buf, size_t size);

#endif
