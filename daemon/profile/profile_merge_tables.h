/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What profile_merge.c fills and profile_merge_pack.c lays out as one message. A number in a table plus one is an id. */
#ifndef STAKEOUT_PROFILE_MERGE_TABLES_H
#define STAKEOUT_PROFILE_MERGE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/intern.h"
#include "stakeout/profile.pb-c.h"

/* Keys of the tables. They are compared as bytes, so none has padding. Strings are numbers in `strings`. */
struct merge_mapping {
	uint64_t start, limit, offset;
	uint32_t filename, build_id;
};

struct merge_function {
	uint32_t name, system_name, filename, unused;
	int64_t start_line;
};

struct merge_line {
	uint64_t function_id; /* 0: none */
	int64_t line, column;
};

struct merge_location {
	uint64_t address;
	uint32_t mapping_id; /* 0: none */
	uint32_t is_folded;
	struct merge_line lines[]; /* as many as the key is long */
};

struct merge_label {
	uint32_t key, str, num_unit, unused;
	int64_t num;
};

struct merge_sample {
	uint32_t n_labels, n_locations;
	struct merge_label labels[]; /* by key; behind them n_locations uint32_t, ids, leaf first */
};

static inline uint32_t *merge_sample__locations(const struct merge_sample *sample)
{
	return (uint32_t *)(sample->labels + sample->n_labels);
}

struct merge_comment {
	uint32_t text; /* string; of a sum, what stands before its number, the '=' included */
	bool is_sum;
	int64_t sum;
};

struct merge_value_type {
	uint32_t type, unit; /* strings */
};

struct merge_mapping_flags {
	bool functions, filenames, line_numbers, inline_frames;
};

#define MERGE_MAX_TYPES  8
#define MERGE_MAX_LABELS 64 /* of one sample */

struct merge_tables {
	struct intern strings, mappings, functions, locations, samples;
	struct merge_mapping_flags *flags; /* by number of the mapping */
	size_t flags_capacity;
	int64_t *values; /* n_types for each sample */
	size_t values_capacity;
	struct merge_comment *comments;
	size_t n_comments, comments_capacity;
	struct merge_value_type types[MERGE_MAX_TYPES], period_type;
	size_t n_types; /* 0: no message yet */
	uint32_t default_type, drop_frames, keep_frames;
	int64_t period, time_ns, duration_ns;
};

/* *out: malloc'ed. -EFBIG, -ENOMEM. */
int merge_tables__pack(const struct merge_tables *tables, uint8_t **out, size_t *length);

#endif
