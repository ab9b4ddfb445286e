/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pprof message as tables of distinct things, and its packing. A number in a table plus one is an id in it. */
#ifndef STAKEOUT_PPROF_TABLES_H
#define STAKEOUT_PPROF_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/intern.h"

/* Keys of the tables. They are compared as bytes, so none has padding. Strings are numbers in `strings`. */
struct pprof_mapping {
	uint64_t start, limit, offset;
	uint32_t filename, build_id;
};

struct pprof_function {
	uint32_t name, system_name, filename, unused;
	int64_t start_line;
};

struct pprof_line {
	uint64_t function_id; /* 0: none */
	int64_t line, column;
};

struct pprof_location {
	uint64_t address;
	uint32_t mapping_id; /* 0: none */
	uint32_t is_folded;
	struct pprof_line lines[]; /* innermost first; as many as the key is long */
};

struct pprof_label {
	uint32_t key, str, num_unit, unused;
	int64_t num;
};

struct pprof_comment {
	uint32_t text; /* string; of a sum, what stands before its number, the '=' included */
	bool is_sum;
	int64_t sum;
};

struct pprof_value_type {
	uint32_t type, unit; /* strings */
};

/* They tell a reader that it need not look for names itself; where none is set it may try with the binary at hand. */
struct pprof_mapping_flags {
	bool functions, filenames, line_numbers, inline_frames;
};

#define PPROF_MAX_TYPES  8
#define PPROF_MAX_LABELS 64 /* of one sample */

/* All zero is an empty one; the first string must be "". */
struct pprof_tables {
	struct intern strings, mappings, functions, locations;
	struct intern labels;              /* all of a sample: an array of struct pprof_label */
	struct intern samples;             /* number in `labels`, then the ids of locations, leaf first: uint32_t */
	struct pprof_mapping_flags *flags; /* by number of the mapping */
	size_t flags_capacity;
	int64_t *values; /* n_types for each sample */
	size_t values_capacity;
	uint32_t *stack; /* the sample that is looked up */
	size_t stack_capacity;
	struct pprof_comment *comments;
	size_t n_comments, comments_capacity;
	struct pprof_value_type types[PPROF_MAX_TYPES], period_type;
	size_t n_types;
	uint32_t default_type, drop_frames, keep_frames;
	int64_t period, time_ns, duration_ns;
};

static inline size_t pprof_tables__lines(const struct pprof_tables *tables, size_t location)
{
	return (intern__length(&tables->locations, location) - sizeof(struct pprof_location)) /
	       sizeof(struct pprof_line);
}

void pprof_tables__clear(struct pprof_tables *tables);

/* -ENOMEM, or whether it is new; its flags are zero then. */
int pprof_tables__mapping(struct pprof_tables *tables, const struct pprof_mapping *key, uint32_t *number);

/* Room for n ids, which pprof_tables__sample() looks up. NULL: out of memory. */
uint32_t *pprof_tables__stack(struct pprof_tables *tables, size_t n);
/* A further value, which samples that are there have from their value number `like`. -EINVAL: no room; -ENOMEM. */
int pprof_tables__add_type(struct pprof_tables *tables, const struct pprof_value_type *type, size_t like);
/* *values: the sample's own, zero if it is new; borrowed until the next one. n_types must be set. 0 or -ENOMEM. */
int pprof_tables__sample(struct pprof_tables *tables, size_t n_locations, const struct pprof_label *labels,
			 size_t n_labels, int64_t **values);
/* 0 or -ENOMEM. */
int pprof_tables__comment(struct pprof_tables *tables, const struct pprof_comment *comment);

size_t pprof_tables__bytes(const struct pprof_tables *tables); /* memory held, roughly */

/* *out: malloc'ed, gzipped or not. Equal tables give equal bytes. -EFBIG: uncompressed above max_bytes; -ENOMEM. */
int pprof_tables__pack(const struct pprof_tables *tables, bool gzip, size_t max_bytes, uint8_t **out, size_t *length);

#endif
