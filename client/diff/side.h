/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One side of a comparison: what its profiles have of each function, line, category, phase and CUDA API, by block. A
 * block is a stretch of time of one run; a profile without times is one block.
 */
#ifndef STAKEOUT_CLIENT_DIFF_SIDE_H
#define STAKEOUT_CLIENT_DIFF_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/summary/summary.h"
#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/intern.h"

#define SIDE_BLOCKS   30 /* of a profile with times, at most, */
#define SIDE_BLOCK_NS INT64_C(1000000000)
#define SIDE_LEAST    5   /* each so long at least, and so many, or the profile is one block */
#define SIDE_MAX_RUNS 100 /* files of one side */

/* kind, its name in --fail-on and JSON, the title of its table */
#define ROW_KIND_LIST(X)                                                                  \
	X(CATEGORY, "category", "Categories")                                             \
	X(PHASE, "phase", "Phases")                                                       \
	X(CUDA, "cuda", "CUDA APIs, the time that their calls take on the host")          \
	X(LINE, "line", "Lines of your own, each with all that it calls in others' code") \
	X(FUNCTION, "function", "Functions, without what they call")                      \
	X(INCLUSIVE, "inclusive", "Functions, with all that they call")

enum row_kind {
#define X(id, name, title) ROW_##id,
	ROW_KIND_LIST(X)
#undef X
		ROW_KINDS,
};

const char *row_kind__name(enum row_kind kind);
const char *row_kind__title(enum row_kind kind);

/* What the amounts of a side's rows are. */
enum side_measure {
	SIDE_CPU,   /* CPU time, ns */
	SIDE_WALL,  /* wall time of threads, ns */
	SIDE_COUNT, /* samples or calls, of a profile that has no time */
};

struct side_block {
	double wall_ns; /* its length; 0: not known */
	double amount;  /* of all samples in it */
	double steps;   /* that passed in it, fractions too; 0: not known */
	double step_ns; /* the time that these took: its length for each process that has steps */
	unsigned run;   /* files of one run have one number, from 0 */
};

struct side_row {
	enum row_kind kind;
	const char *text;    /* of a function, or of the function of a line: points into the side */
	int64_t line;        /* of a line; else 0 */
	double amount;       /* the sum of its cells */
	double squares;      /* the sum of its observations' squared amounts, for the variance of counts alone */
	double observations; /* samples, or looks at threads that wait */
};

struct side {
	struct intern keys;
	struct side_row *rows; /* n of them */
	double *cells;         /* of row i in block j: [i * n_blocks + j] */
	size_t n, rows_capacity, cells_capacity;
	struct side_block *blocks;
	size_t n_blocks;
	unsigned n_runs;
	bool in_time; /* the blocks are of time: each run has SIDE_LEAST or more */
	struct side_row all;
	double wall_ns, steps, step_ns;
	enum side_measure measure;
	char *value;          /* of SIDE_COUNT: what is counted, "samples" */
	char *program;        /* the thread name with most samples; "" where none has one */
	char *event;          /* CUDA calls of which kind; "" for samples */
	double rate_hz;       /* of samples; 0: not known, or several */
	double left_out;      /* the share of the largest row that a baseline had no room for; 0: it has all */
	size_t processes;     /* that have samples */
	size_t without_lines; /* native functions that are compared as a whole: one side lacks their source lines */
	double runnable;      /* of all.amount, of SIDE_WALL: that threads waited for a CPU; negative: not known */
};

struct side_input {
	const struct profile *profile;
	const char *name; /* for messages */
	unsigned run;
};

/*
 * request: its rules, phases, style and what its render options select; phases may be NULL. n ≥ 1 inputs, those of one
 * run behind each other, runs from 0 on. -EINVAL, in words: two that cannot be added; -ENODATA: no samples; -ENOMEM.
 */
int side__new(const struct side_input *inputs, size_t n, const struct summary_request *request, struct side **out,
	      struct so_error *err);
void side__free(struct side *side);
CLEANUP_DEFINE(struct side *, side, side__free)

/* The number of a row, which is made if it is new. -ENOMEM. For side.c and for what reads a side from a file. */
int side__row(struct side *side, enum row_kind kind, const char *text, size_t length, int64_t line, uint32_t *out);
/* Once, when all rows and cells are there: texts and sums. -ENOMEM. */
int side__settle(struct side *side);

/* Whether each run has SIDE_LEAST blocks or more. */
bool side__has_blocks(const struct side *side);

static inline double *side__cells(const struct side *side, size_t row)
{
	return side->cells + row * side->n_blocks;
}

#endif
