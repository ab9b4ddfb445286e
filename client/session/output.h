/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a result goes. Opened before any work is done, so that a place that cannot be written is known at once.
 * A regular file is written under another name beside it and takes its place at the end: whatever happens in
 * between, the name holds either the old content or the whole new one.
 */
#ifndef STAKEOUT_CLIENT_OUTPUT_H
#define STAKEOUT_CLIENT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct output;

/* path "-": standard output. Pipes and devices are written as they are. Copied. */
int output__open(const char *path, struct output **out, struct so_error *err);
/*
 * A regular file that is new: STEM ENDING, or where that is there already STEM-2 ENDING, and so on. Nothing is
 * replaced, and the name is decided by output__commit(). Copied.
 */
int output__open_new(const char *stem, const char *ending, struct output **out, struct so_error *err);
/* For writing; errors may be left to output__commit(). */
FILE *output__file(struct output *output);
/* Lines written and flushed so far; all of them after output__commit(). */
uint64_t output__lines(const struct output *output);
/* How to call the place in a message. */
const char *output__name(const struct output *output);
/* Completes it; nothing can fail afterwards. On failure the temporary file is gone. -EPIPE: no reader; err is empty. */
int output__commit(struct output *output, struct so_error *err);
/* Without output__commit(), the place stays as it was. */
void output__free(struct output *output);
CLEANUP_DEFINE(struct output *, output, output__free)

#endif
