/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that read other processes' memory for the daemon, one read at a time each. A read that hangs at a page of a
 * file that a user's program serves cannot be killed, and a process ends only with its last thread: so it is not the
 * daemon whose thread hangs. Both ends are the same program, so their messages have no version.
 */
#ifndef STAKEOUT_MEMORY_HELPER_H
#define STAKEOUT_MEMORY_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/thread_catch.h"

/* The first argument of a stakeoutd that is to be one. */
#define MEMORY_HELPER_ARGUMENT "--read-memory"

/*
 * Starts some, beside what goes on: now, or at the first read, since many a recording needs none. Each has what the
 * program may do at that time, so privileges are given up before. Until one is ready, and where this is never called,
 * as in tests, reads are made by who asks for them.
 */
void memory_helper__enable(bool now);
/* Others in the place of such as hang. Thread-safe. */
void memory_helper__replenish(void);
/* At the daemon's end: one that hangs would outlive it, and hold its standard error open. No other is started. */
void memory_helper__kill_all(void);

/* As process_memory__read(). Thread-safe. */
size_t memory_helper__read(pid_t pid, uint64_t address, void *buf, size_t size);

/*
 * What a room above wants to be done with another process's memory, in a helper. Requests and answers are plain data,
 * of these bytes at most; returns the answer's bytes. Set before all else, in the daemon and in what is to be a helper.
 */
#define MEMORY_HELPER_REQUEST_BYTES (4u << 10)
#define MEMORY_HELPER_ANSWER_BYTES  (96u << 10)
typedef size_t (*memory_helper_work)(const void *request, size_t bytes, void *answer);
void memory_helper__set_work(memory_helper_work work);
/* Has it done; returns the bytes of the answer, 0: there is none. answer: MEMORY_HELPER_ANSWER_BYTES. Thread-safe. */
size_t memory_helper__work(const void *request, size_t bytes, void *answer);

/* thread_catch() of n threads, one after the other; returns how many were caught. Thread-safe. */
size_t memory_helper__catch(const struct thread_catch_request *requests, struct thread_memory *out, size_t n);

/* Reads for who holds the other end of the socket that is standard input, until that is closed. */
void memory_helper__run(void) __attribute__((noreturn));

#endif
