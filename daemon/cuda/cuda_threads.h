/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that have entries in the kernel's map of CUDA calls, which all targets share and which a job that makes a
 * thread for each epoch, or each step, would fill: which of those that have ended are to give theirs back. Not
 * thread-safe.
 */
#ifndef STAKEOUT_CUDA_THREADS_H
#define STAKEOUT_CUDA_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/os/u64_table.h"
#include "stakeout/cleanup.h"

#define CUDA_THREADS_FOLD_AFTER_NS 600000000000ull /* of a thread that has ended */

/* A thread, in a set of threads: a key of struct u64_table. */
static inline uint64_t cuda_threads__key(uint32_t tgid, uint32_t tid)
{
	return (uint64_t)tgid << 32 | tid;
}

struct cuda_threads;

/* max_entries: of the map. lives: whether a thread exists; cuda_threads__lives() but for tests. -ENOMEM. */
int cuda_threads__new(size_t max_entries, bool (*lives)(uint32_t tgid, uint32_t tid), struct cuda_threads **out);
void cuda_threads__free(struct cuda_threads *threads);
CLEANUP_DEFINE(struct cuda_threads *, cuda_threads, cuda_threads__free)

bool cuda_threads__lives(uint32_t tgid, uint32_t tid);

/* A look at the map: begin, each entry's thread, the end, which asks whether they live. -ENOMEM: look again later. */
int cuda_threads__begin(struct cuda_threads *threads);
int cuda_threads__add(struct cuda_threads *threads, uint32_t tgid, uint32_t tid);
void cuda_threads__end(struct cuda_threads *threads, uint64_t now_ns);

/*
 * Adds to the set `out` those that are to give their entries back, by the last look: while the map is fuller than a
 * quarter, those that ended longest ago, until it is at an eighth; and, once a minute, those that ended more than ten
 * minutes ago. None that lives, or whose process has ended: its end is about to be told. -ENOMEM.
 */
int cuda_threads__choose(const struct cuda_threads *threads, uint64_t now_ns, struct u64_table *out);

#endif
