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

#define CUDA_MERGE_MAX_SECONDS 1e10

struct reading {
	struct cuda_merge *merge; /* NULL: only checked */
	struct json_fields fields;
	double duration_s;
	uint32_t *frames; /* words of the document's "frames"; not set while it is only checked */
	size_t n_frames;
	struct u64_table libraries; /* numbers of the document: of the sum */
	uint32_t stack[CUDA_MERGE_MAX_FRAMES];
};

void reading__clear(struct reading *r);
/* Keeps the first code. */
void merge_refuse(struct reading *r, int code);
/* Whether what was read is to be added. */
bool merge_adds(const struct reading *r);

/* "0x7f12"; NULL: absent. */
const char *merge_address(struct reading *r, const json_t *row, const char *key);
/* The number of the row's "stack" in the merger's; texts, or places in "frames". */
uint32_t merge_stack(struct reading *r, const json_t *row);
/* The word of one of its elements. */
uint32_t merge_frame(struct reading *r, const json_t *value);

/* The number of a text; NULL: NO_WORD. */
uint32_t merge_word(struct reading *r, const char *found);
/* The row of a key, zeroed when it is new; NULL: a limit, or no memory. new: may be NULL. */
void *merge_row(struct reading *r, struct table *table, const void *key, size_t length, bool *new);

/* Both are below 2^63; the sum stops there. */
void merge_sum_count(uint64_t *sum, uint64_t more);
void merge_sum_signed(int64_t *sum, int64_t more);
/* Stays finite, so that JSON can tell it. */
void merge_sum_real(double *sum, double more);
/* A value below 0 is not known. */
void merge_sum_mean(struct mean *mean, double value, double weight);

/* cuda_merge_rows.c: each object of a list; all lists of a document but the devices; and those. */
void merge_each(struct reading *r, const json_t *owner, const char *key,
		void (*take)(struct reading *, const json_t *));
void merge_rows(struct reading *r, const json_t *document);
void merge_devices(struct reading *r, const json_t *gpu);

#endif
