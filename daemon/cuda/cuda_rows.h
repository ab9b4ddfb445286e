/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of GET /v1/targets/ID/cuda that come out of a snapshot: "calls", "errors" and "allocations". */
#ifndef STAKEOUT_CUDA_ROWS_H
#define STAKEOUT_CUDA_ROWS_H

#include <jansson.h>
#include <stdbool.h>

#include "daemon/cuda/cuda_snapshot.h"

/* What a snapshot does not know. Each function may be NULL: all processes, nothing known. */
struct cuda_rows_world {
	void *data; /* handed to each function */
	bool (*takes)(void *data, uint32_t tgid);
	/* A thread's name, any bytes; NULL: not known. Borrowed until the next call. */
	const char *(*comm)(void *data, uint32_t tgid, uint32_t tid);
	/*
	 * The readable name of a kernel, by so_cuda_key.kernel, which is not 0; NULL: not known. Borrowed until the
	 * next call; asked once for each kernel of a process.
	 */
	const char *(*kernel)(void *data, uint32_t tgid, uint64_t kernel);
	/*
	 * The line of an allocation site, by its stack's hash (0: not known), and a new list of its frames; NULL: not
	 * known, and *frames is untouched. Borrowed as long as `data`.
	 */
	const char *(*site)(void *data, uint32_t tgid, uint64_t stack, json_t **frames);
};

/*
 * New references to arrays; NULL: out of memory. Numbers above 2^63 - 1 read 2^63 - 1.
 *
 * Calls: one row for each (process, thread, API, library, kernel, direction), its octaves merged, by falling
 * total_ns, then by process, thread, API, library, kernel and direction. Histogram buckets rise. Each octave keeps
 * its own last launch, and which of these was the last of all is not known: grid, block and stream are those of the
 * octave with the most calls.
 */
json_t *cuda_rows__calls(const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world);
/* By falling count, then by process, API, library and code. */
json_t *cuda_rows__errors(const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world);
/* By falling bytes, then by falling current_bytes, then by process, host or device memory, and stack. */
json_t *cuda_rows__allocations(const struct cuda_snapshot *snapshot, const struct cuda_rows_world *world);

/* {"word": count, …} for every word of SO_CUDA_LOSSES, zeros too. */
json_t *cuda_rows__lost(const struct so_cuda_slot *slot);

#endif
