/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks at the threads of some processes, from outside: what they do, how long they have been on a CPU, and of those
 * that wait where. A thread that has not run since the last look costs one lookup in the kernel. For one caller at a
 * time.
 */
#ifndef STAKEOUT_THREAD_LOOKS_H
#define STAKEOUT_THREAD_LOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/looks_abi.h"

struct thread_looks;

/* Loads the program. */
int thread_looks__open(struct thread_looks **out, struct so_error *err);
void thread_looks__close(struct thread_looks *looks);
CLEANUP_DEFINE(struct thread_looks *, thread_looks, thread_looks__close)

struct looked_process {
	pid_t tgid;
	uint32_t epoch; /* with another one nothing is known of its threads */
};
/* From now on these processes and no others: n of them, ascending by number. -ENOMEM; others from the kernel. */
int thread_looks__watch(struct thread_looks *looks, const struct looked_process *processes, size_t n);

/*
 * One look. *bytes is malloc'ed: records one after the other, each as long as its `bytes` says, aligned to 8;
 * *length: of them all. Those of processes that are not watched any more do not come.
 */
int thread_looks__read(struct thread_looks *looks, enum so_look_mode mode, uint8_t **bytes, size_t *length);

/*
 * What the last look that met the thread found. At another time than the last look's the thread has ended. False: it is
 * not known. Both also while a look is under way.
 */
bool thread_looks__find(const struct thread_looks *looks, uint32_t tid, struct so_looked *out);
/* The next look takes it for one that it never saw. */
void thread_looks__forget(struct thread_looks *looks, uint32_t tid);

/* Forgets threads that no look has met since then, CLOCK_MONOTONIC. */
void thread_looks__sweep(struct thread_looks *looks, uint64_t since_ns);

/* The record at `at`, or NULL at the end; *at goes on behind it. */
const struct so_look_record *thread_looks__next(const uint8_t *bytes, size_t length, size_t *at);

#endif
