/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One document of cuda_merge.c on its way into the sum: its members, checked as they are read, and what they are added
 * to. The first that is not what it must be ends the reading (stakeout/json_fields.h), and what follows adds nothing.
 * Without a merger nothing is added: the document is only checked.
 */
#ifndef STAKEOUT_CUDA_MERGE_READING_H
#define STAKEOUT_CUDA_MERGE_READING_H

#include "daemon/history/cuda_merge_internal.h"
#include "daemon/os/u64_table.h"
#include "stakeout/json_fields.h"

struct reading {
	struct cuda_merge *merge; /* NULL: only checked */
	struct json_fields fields;
	double duration_s;
	uint32_t *frames; /* words of the document's "frames"; not set while it is only checked */
	size_t n_frames;
	struct u64_table libraries; /* numbers of the document: of the sum */
	uint32_t stack[SO_CUDA_MAX_FRAMES];
	struct cuda_bucket buckets[SO_CUDA_MAX_BUCKETS];
};

void reading__clear(struct reading *r);
/* Keeps the first code. */
void merge_refuse(struct reading *r, int code);
/* Whether what was read is to be added. */
bool merge_adds(const struct reading *r);

/* The number of a stack in the merger's; its elements are texts, or places in "frames". */
uint32_t merge_stack(struct reading *r, const json_t *frames);
/* The word of one of its elements. */
uint32_t merge_frame(struct reading *r, const json_t *frame);

/* The number of a text; NULL: NO_WORD. */
uint32_t merge_word(struct reading *r, const char *text);
/* The text as the merger has it. */
const char *merge_text(struct reading *r, const char *text);
/* `row` becomes the sum of both, its texts the merger's. */
void merge_sum_row(struct reading *r, enum so_cuda_row_kind kind, void *row, const void *sum);
/*
 * Adds to the row with the same keys and the same `more`. Returns that, or NULL: a limit, or no memory. What a new one
 * has behind its row is zeroed. `row` becomes the sum.
 */
void *merge_add_row(struct reading *r, enum so_cuda_row_kind kind, void *row, uint64_t more);

/* Both are below 2^63; the sum stops there. */
void merge_sum_count(uint64_t *sum, uint64_t more);
void merge_sum_signed(int64_t *sum, int64_t more);
/* Stays finite, so that JSON can tell it. */
void merge_sum_real(double *sum, double more);
/* NAN is not known. */
void merge_sum_mean(struct mean *mean, double value, double weight);

/* cuda_merge_rows.c: all lists of a document but the devices; and those. */
void merge_rows(struct reading *r, const json_t *document);
void merge_devices(struct reading *r, const json_t *gpu);

#endif
