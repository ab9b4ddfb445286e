/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who makes a target's CUDA calls: a line for each thread, call and stack. A target may be watched for months, with
 * threads and processes that come and go, so lines that nothing has been added to for long can be forgotten. A line
 * keeps its place as long as it lives; whoever remembers what was in a place remembers whose it was (`serial`).
 */
#ifndef STAKEOUT_CUDA_LINES_H
#define STAKEOUT_CUDA_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/cuda/cuda_line_totals.h"
#include "daemon/os/u64_table.h"
#include "stakeout/cuda_abi.h"

/* Of one target. */
#define CUDA_LINES_MAX (1u << 18)

struct cuda_line {
	uint64_t serial; /* no other line has it; 0: the place is vacant, and all else 0 */
	uint32_t tgid, tid;
	uint32_t api;
	uint64_t stack; /* its hash */
	double calls, total_ns, bytes;
	double needless, needless_ns;  /* of calls and total_ns, as in struct so_cuda_line */
	struct cuda_line_figures seen; /* of the calls whose stacks were taken, which stand for all of these */
	bool sampled;       /* some of these calls had no stack taken; as it was read (cuda_taken__lines()) */
	uint64_t latest_ns; /* when something was added last, CLOCK_MONOTONIC */
};

/* All zero is an empty one. */
struct cuda_lines {
	struct cuda_line *list;
	size_t n, capacity; /* places, vacant ones included: never fewer than before */
	uint32_t *vacant;
	size_t n_vacant, cap_vacant;
	struct u64_table by_hash;
	uint64_t serial;    /* the latest */
	uint64_t lost;      /* calls for which there was no room */
	uint64_t forgotten; /* lines */
};

/* Adds to the line of that key, each number times the factor. -ENOMEM: no room for another, which is counted. */
int cuda_lines__add(struct cuda_lines *lines, const struct so_cuda_line_key *key, const struct so_cuda_line *line,
		    double factor, uint64_t now_ns);
static inline size_t cuda_lines__count(const struct cuda_lines *lines)
{
	return lines->n - lines->n_vacant;
}
/* Forgets lines idle since before_ns, oldest first, to `most` (fewer if times are equal). Returns how many. Linear. */
size_t cuda_lines__forget(struct cuda_lines *lines, size_t most, uint64_t before_ns);
void cuda_lines__release(struct cuda_lines *lines);

#endif
