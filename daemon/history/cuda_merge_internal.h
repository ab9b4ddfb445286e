/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files cuda_merge*.c share. Texts are numbers in `words`. */
#ifndef STAKEOUT_CUDA_MERGE_INTERNAL_H
#define STAKEOUT_CUDA_MERGE_INTERNAL_H

#include "daemon/cuda/cuda_estimate.h"
#include "daemon/history/cuda_merge.h"
#include "stakeout/intern.h"
#include "stakeout/latency.h"

#define NO_WORD    UINT32_MAX
#define NO_LIBRARY UINT32_MAX

/* Keys are compared as bytes: no padding. */
struct library_key {
	int64_t pid;
	uint32_t path, kind;
	uint64_t is_static;
};

struct call_key {
	int64_t pid, tid;
	uint32_t api, kind, library, direction;
	uint32_t kernel, address; /* address: NO_WORD where the kernel has a name */
};

struct bucket {
	uint64_t lower_ns, count;
};

struct call_row {
	uint32_t comm, address, stream;
	uint32_t grid[3], block[3];
	uint64_t calls, errors, total_ns, min_ns, max_ns, bytes, blocks, threads;
	double squares_ns2;
	struct bucket *buckets; /* rising */
	size_t n_buckets, capacity;
};

struct error_key {
	int64_t pid;
	uint32_t api, library;
	uint64_t code;
};

struct error_row {
	uint64_t count;
};

struct line_key {
	int64_t pid, tid;
	uint32_t event, api, line, stack;
};

struct line_row {
	uint64_t calls, total_ns, bytes;
	uint64_t stacks, stacks_ns, stacks_bytes; /* of calls whose stacks were taken */
	bool sampled;
};

struct site_key {
	int64_t pid;
	uint32_t line, stack;
	uint64_t host;
};

struct site_row {
	uint64_t allocations, frees, bytes;
	/* of document number `document`; peak_before: the greatest of those before it */
	int64_t current_bytes, peak_bytes, peak_before;
	uint64_t document;
};

struct mean {
	double sum, weight;
};

struct device_key {
	int64_t index;
	uint32_t uuid, zero;
};

struct device_row {
	uint32_t name, problem;
	struct mean utilisation, memory_utilisation, process_utilisation;
	double memory_used, memory_total, process_memory; /* below 0: not known */
	uint64_t samples;
};

struct table {
	struct intern keys;
	size_t row_bytes;
	char *rows; /* by the key's number */
	size_t capacity;
};

struct cuda_merge {
	struct intern words, stacks, problems;
	struct table libraries, calls, errors, lines, sites, devices;
	size_t buckets_bytes;
	uint64_t n_documents;

	int64_t pid;
	uint32_t comm, gpu_problem, driver, probe_kind;
	double duration_s, cpu_s;
	bool estimated, available, gpu, probes;
	struct cuda_estimates estimates;
	bool lines_unknown;     /* of which calls stacks were taken: some of what was added does not say it */
	bool intervals_unknown; /* of `estimates`: some of what was added does not say them */
	int64_t devices_left_out;
	uint64_t installed, floor_ns, hits, returns, nested, stacks_taken;
	unsigned state; /* the place in cuda_merge_states */
	double cost_ns, budget_percent;
	struct mean overhead;
	json_t *lost, *rungs, *periods, *stack_times, *in_progress;
};

/* By what they leave out, the least first. */
#define CUDA_MERGE_STATES 5
extern const char *const cuda_merge_states[CUDA_MERGE_STATES];

static inline void *table_row(const struct table *table, size_t i)
{
	return table->rows + i * table->row_bytes;
}

static inline const void *table_key(const struct table *table, size_t i)
{
	return intern__key(&table->keys, i);
}

static inline size_t table_size(const struct table *table)
{
	return table->keys.n_keys;
}

#endif
