/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adds up answers about CUDA calls (GET /v1/targets/ID/cuda, .design/cuda.md), each of its own time: the documents of a
 * history's windows. One document is looked at at a time, so memory grows with what differs and not with the number of
 * documents.
 *
 * Two forms are read and written. The plain one is the API's. The stored one holds each frame's text once: "frames" is
 * a list of texts, and elements of a "stack" are places in it; a device's "seconds" and "process_seconds" say of how
 * much time its percentages are.
 *
 * What becomes of the members:
 * - calls: one row for each (process, thread, API, library, kernel by name or else by address, direction). Counters,
 *   squares and histograms are sums; min_ns and max_ns the least and the greatest; grid, block, stream, comm those of
 *   the last document that has the row.
 * - errors, lines, lost: sums, lines by (process, thread, API, line, stack), which in the plain form are what is made
 *   of the sum by the calls (daemon/cuda/cuda_line_totals.h), if each that was added says `stacks_ns` and
 *   `stacks_bytes`, as the stored form does; problems: each text once.
 * - allocations: sums; current_bytes as in the last document that has the row, peak_bytes the greatest.
 * - libraries by (process, path, kind), numbered anew.
 * - gpu: percentages are means weighted by the documents' duration_s; memory is that of the last document; samples are
 *   summed.
 * - duration_s, cpu_s, the sums of estimate: sums, its intervals those of these, and not known where a document (an
 *   older daemon's) does not say them. estimated, available: whether any was. pid, comm, in_progress: of the last.
 * - probes: counts are sums; overhead_percent a mean weighted by duration_s; stack_period and stack_time_ns the
 *   greatest; state and rungs those that leave out the most; what else there is as in the last.
 * Members that are not known are left out. Counts stop at 2^63 - 1.
 *
 * A document may be damaged: every member is checked, and one that is not what it must be refuses the document.
 */
#ifndef STAKEOUT_CUDA_MERGE_H
#define STAKEOUT_CUDA_MERGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

#define CUDA_MERGE_MAX_BYTES ((size_t)256 << 20) /* of all rows and texts of the sum together */
#define CUDA_MERGE_MAX_TEXTS 1024                /* problems; members of "lost" and of "stack_period" */

struct cuda_merge;

/* NULL: out of memory. */
struct cuda_merge *cuda_merge__new(void);
void cuda_merge__free(struct cuda_merge *merge);
CLEANUP_DEFINE(struct cuda_merge *, cuda_merge, cuda_merge__free)

/* 0, or -EBADMSG: it is no such document. */
int cuda_merge__check(const json_t *document);
/*
 * Adds a document that is later than those before. -EBADMSG: refused, and nothing of it was added; -EFBIG: a limit
 * above; -ENOMEM: free the merger after either, part of the document may be in it.
 */
int cuda_merge__add(struct cuda_merge *merge, const json_t *document);
/* How many were added. */
uint64_t cuda_merge__documents(const struct cuda_merge *merge);
/* The sum, in the stored form or the plain one. New reference; NULL: out of memory. The merger can go on being used. */
json_t *cuda_merge__finish(const struct cuda_merge *merge, bool stored);

/* For store_options.merge_cuda: the sum of an array in the stored form, or NULL: one was refused, or a limit. */
json_t *cuda_merge__store(json_t *documents);

#endif
