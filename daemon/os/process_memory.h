/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads a process's memory from outside, without stopping it, and without bringing pages into memory that the process
 * itself has not touched. Such a page may be served by a user's program (userfaultfd: lazy restore, post-copy
 * migration, VM snapshots), which costs a transfer, or never returns where nobody serves it. So a page that is neither
 * in memory nor swapped out counts as not there, unless a file is mapped there. Pages of files may still take long.
 */
#ifndef STAKEOUT_PROCESS_MEMORY_H
#define STAKEOUT_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"

#define PROCESS_MEMORY_KNOWN 16

/* One process for the time of one request: which pages are there is asked once and remembered. For one thread. */
struct process_memory {
	pid_t pid;                            /* its own, or that of another thread when the first one has ended */
	bool moved;                           /* the latter was looked for */
	int pagemap;                          /* /proc/PID/pagemap; -1: not open yet, or it cannot be had */
	int maps;                             /* /proc/PID/maps, likewise */
	bool tried;                           /* to open pagemap */
	uint64_t known[PROCESS_MEMORY_KNOWN]; /* numbers of pages that can be read, each + 1; by number, 0: none */
};

/* A reader of this process; opens nothing yet. End it with process_memory__end(). */
static inline struct process_memory process_memory__of(pid_t pid)
{
	return (struct process_memory){ .pid = pid, .pagemap = -1, .maps = -1 };
}

/* Returns the bytes read, up to the first page that is not there; 0 when none could be. */
size_t process_memory__get(struct process_memory *reader, uint64_t address, void *buf, size_t size);
/*
 * The same of a stack, up to the first page that is not in memory, whatever is mapped there: a read that goes past the
 * stack's end must not wait for what lies behind it.
 */
size_t process_memory__get_stack(struct process_memory *reader, uint64_t address, void *buf, size_t size);
/* Closes its files. */
void process_memory__end(struct process_memory *reader);
CLEANUP_DEFINE_OF(struct process_memory, process_memory, process_memory__end)

/* One read. */
size_t process_memory__read(pid_t pid, uint64_t address, void *buf, size_t size);

#endif
