/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dates the names of just-in-time compiled code. A compiler that discards code may place other code at the same
 * address, and appends a line for it to the process's perf map (symbols/perf_map.h), so a name belongs to the time of a
 * sample.
 *
 * The maps are polled before each window of samples is drained. A stack that contains such code is identified by its
 * frames and by the window since which their names are unchanged. If a line for one of its addresses was appended
 * during the
 * window, samples from before and after it cannot be told apart: they get both names.
 *
 * Kept for each process: the sampled addresses, and the file's length before and after each window that a stack refers
 * to. Names stay in the file. Thread-safe; its lock is a leaf, and is not held while a file is read.
 */
#ifndef STAKEOUT_JIT_NAMES_H
#define STAKEOUT_JIT_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/sampler_abi.h"

/* Limits on processes, and per process. Beyond them samples get the newest names. */
#define JIT_NAMES_MAX_PROCESSES 128
#define JIT_NAMES_MAX_ADDRESSES 16384
#define JIT_NAMES_MAX_WINDOWS   8192
/* Read per poll. If the file has grown by more, every address may have a new name. */
#define JIT_NAMES_MAX_BYTES (4u << 20)

struct jit_names;

int jit_names__new(struct jit_names **out); /* -ENOMEM */
void jit_names__free(struct jit_names *j);
CLEANUP_DEFINE(struct jit_names *, jit_names, jit_names__free)

/*
 * Polls the maps, unless that was done less than min_interval_ns ago. To be called before a drain, with no lock held.
 */
void jit_names__poll(struct jit_names *j, uint64_t min_interval_ns);
/* Whether a map is open whose process's code was sampled within the last JIT_NAMES_FOLLOWED_NS. */
#define JIT_NAMES_FOLLOWED_NS 10000000000ull
bool jit_names__follows_any(struct jit_names *j);
/*
 * The current window's number, for record.names; 0 if the stack has no such code. Mixes into *hash what distinguishes
 * the stack from one with the same frames and other names.
 */
uint32_t jit_names__window(struct jit_names *j, const struct so_stack_record *record, const uint64_t *frames,
			   uint64_t *hash);
/* Ends the window: all its samples have been drained. */
void jit_names__turn(struct jit_names *j);
/*
 * The file's length before and after a window, bytes. False if it is unknown, or the file has been rewritten since:
 * then the newest names are the best there are. j may be NULL.
 */
bool jit_names__file_then(struct jit_names *j, pid_t tgid, uint32_t window, uint64_t *from, uint64_t *to);

#endif
