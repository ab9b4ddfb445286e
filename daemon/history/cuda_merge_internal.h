/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files cuda_merge*.c share. Texts in rows are those of `texts`: equal ones are one. */
#ifndef STAKEOUT_CUDA_MERGE_INTERNAL_H
#define STAKEOUT_CUDA_MERGE_INTERNAL_H

#include "daemon/cuda/cuda_estimate.h"
#include "daemon/history/cuda_merge.h"
#include "daemon/os/u64_table.h"
#include "stakeout/cuda_document.h"
#include "stakeout/intern.h"

#define NO_WORD UINT32_MAX

struct mean {
	double sum, weight;
};

/* Each begins with its row of stakeout/cuda_document.h. */

struct call_row {
	struct so_cuda_call_row sum;
	struct cuda_bucket *buckets; /* rising */
	size_t n_buckets, capacity;
};

struct line_row {
	struct so_cuda_line_row sum;
	uint32_t stack;
};

struct site_row {
	struct so_cuda_allocation_row sum;
	uint32_t stack;
	/* of document number `document`; peak_before: the greatest of those before it */
	int64_t current_bytes, peak_bytes, peak_before;
	uint64_t document;
};

struct device_row {
	struct so_cuda_device_row sum;
	struct mean utilisation, memory_utilisation, process_utilisation;
};

struct table {
	size_t row_bytes; /* 0: it has no rows */
	struct intern keys;
	char *rows; /* by the key's number */
	size_t capacity;
};

struct cuda_merge {
	struct intern words, stacks, problems;
	json_t **texts; /* by number of the word */
	size_t texts_capacity;
	struct table tables[SO_CUDA_ROW_KINDS]; /* some kinds have none */
	size_t buckets_bytes;
	uint64_t n_documents;

	struct so_cuda_head_row head;
	const char *gpu_problem, *driver; /* of `texts` */
	bool gpu, has_probes;
	struct cuda_estimates estimates;
	bool lines_unknown;     /* of which calls stacks were taken: some of what was added does not say it */
	bool intervals_unknown; /* of `estimates`: some of what was added does not say them */
	int64_t devices_left_out;
	struct so_cuda_probes_row probes;
	struct mean overhead;
	unsigned state; /* the place in cuda_merge_states */
	json_t *lost, *rungs, *periods, *stack_times, *in_progress;
};

/* By what they leave out, the least first. */
#define CUDA_MERGE_STATES 5
extern const char *const cuda_merge_states[CUDA_MERGE_STATES];

static inline void *table_row(const struct table *table, size_t i)
{
	return table->rows + i * table->row_bytes;
}

static inline size_t table_size(const struct table *table)
{
	return table->keys.n_keys;
}

/* From 1. */
static inline uint32_t merge_library_number(const struct cuda_merge *m, const struct so_cuda_library_row *row)
{
	return (uint32_t)(row - (const struct so_cuda_library_row *)m->tables[SO_CUDA_ROW_LIBRARY].rows) + 1;
}

/*
 * One document on its way into the sum: its members, checked as they are read, and what they are added to. The first
 * that is not what it must be ends the reading (stakeout/json_fields.h), and what follows adds nothing.
 */
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
