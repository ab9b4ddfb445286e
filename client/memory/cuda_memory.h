/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `stakeout memory --gpu` says where PyTorch's allocator is not to be seen: memory by CUDA call, and by the line
 * that allocated it. As text and as JSON.
 */
#ifndef STAKEOUT_CLIENT_CUDA_MEMORY_H
#define STAKEOUT_CLIENT_CUDA_MEMORY_H

#include <jansson.h>
#include <stdio.h>

#include "cuda/cuda_summary.h"

struct cuda_memory {
	struct cuda_report *report;
	struct cuda_summary *summary; /* of this */
	/* Memory of GPUs alone, in bytes; frees of what was allocated before are not among what was given back. */
	double allocated, in_use;
	double frees_before; /* calls */
	bool exact;          /* each call was seen; else the two above are scaled up, and nothing is known of use */
};

/* answer: GET /v1/targets/ID/cuda. Errors as cuda_report__read()'s. To be cleared in any case. */
int cuda_memory__read(const json_t *answer, struct cuda_memory *out, struct so_error *err);
void cuda_memory__clear(struct cuda_memory *memory);
CLEANUP_DEFINE_OF(struct cuda_memory, cuda_memory, cuda_memory__clear)

/* Whether the process has CUDA, whose calls could be watched. */
bool cuda_memory__any(const struct cuda_memory *memory);
/* why: what is to be said first; top: lines of the table. */
void cuda_memory__print(const struct cuda_memory *memory, const char *why, unsigned top, FILE *out);
/* New reference; NULL: no memory. */
json_t *cuda_memory__json(const struct cuda_memory *memory, const char *why);

#endif
