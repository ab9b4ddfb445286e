/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two sides compared row by row, with the verdict. The statistics and why: .design/comparison.md. */
#ifndef STAKEOUT_CLIENT_DIFF_COMPARE_H
#define STAKEOUT_CLIENT_DIFF_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/diff/side.h"
#include "client/diff/statistics.h"
#include "profile/text.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* The verdict about the whole is tested at this level: it ends a job of CI, and 5 in 100 would be wrong too often. */
#define COMPARE_VERDICT_ALPHA 0.02
/* Rows with fewer samples on both sides together are not tested. */
#define COMPARE_LEAST_SAMPLES 20

/* What rows are divided by: its name as an option's value, and how one of it is called in a sentence. */
#define COMPARE_UNIT_LIST(X)            \
	X(STEP, "step", "a step")       \
	X(RUN, "run", "a run")          \
	X(SECOND, "second", "a second") \
	X(SHARE, "cpu", "")

enum compare_unit {
#define X(id, name, words) COMPARE_##id,
	COMPARE_UNIT_LIST(X)
#undef X
		COMPARE_UNITS,
};

const char *compare_unit__name(enum compare_unit unit);
const char *compare_unit__words(enum compare_unit unit);
/* COMPARE_UNITS: it is none. */
enum compare_unit compare_unit__find(const char *name);

/* How the variance of a side is known. */
enum compare_blocks {
	COMPARE_RUNS,     /* from run to run */
	COMPARE_TIME,     /* from one stretch of time to the next */
	COMPARE_COUNTS,   /* as if each sample was independent of the others */
	COMPARE_BORROWED, /* as much from run to run as on the other side */
};

struct compared {
	enum row_kind kind;
	const char *text;       /* of the base where it has the row; points into a side */
	const char *text_now;   /* the same of the new side; NULL: it has none */
	int64_t line, line_now; /* of a line, on either side; 0: the side has none */
	bool in_base, in_now;
	double share_base, share_now; /* of all, 0 … 1 */
	struct estimate base, now; /* per unit: ns, or counts; of COMPARE_SHARE shares, of COMPARE_SECOND ns per ns */
	struct change change;
	double observations; /* of both sides */
	bool tested;         /* change has a meaning, and so has q */
	double q;            /* 1 where not tested */
	bool significant;
};

enum verdict { VERDICT_NONE, VERDICT_FASTER, VERDICT_SLOWER, VERDICT_DIFFERENT };

struct comparison {
	const struct side *base, *now;
	enum compare_unit unit;
	enum compare_blocks blocks[2]; /* of either side */
	/*
	 * Time a step or a run; CPU time a second. Not tested: of COMPARE_SHARE, which has no whole, and where its
	 * variance is not known.
	 */
	struct compared total;
	struct compared amount; /* CPU time a step or a run, beside the wall time that is the total; else not tested */
	struct compared *rows;  /* significant ones first, then those that changed by most time */
	size_t n;
	size_t n_tested, n_significant;
	const struct compared *leading;  /* the significant row to name first, or NULL */
	const struct compared *category; /* the significant category that changed most, or NULL */
	/* Of COMPARE_SHARE: the tested function whose share is nearest to a twentieth, as an example; or NULL. */
	const struct compared *example;
	enum verdict verdict;
};

/*
 * unit: COMPARE_UNITS for steps where both sides know them, else shares. The sides are borrowed, and stay. -EINVAL, in
 * words: they cannot be compared, or not by this unit; -ENOMEM.
 */
int compare__new(const struct side *base, const struct side *now, enum compare_unit unit, struct comparison **out,
		 struct so_error *err);
void compare__free(struct comparison *comparison);
CLEANUP_DEFINE(struct comparison *, comparison, compare__free)

/* compare_words.c */

/* "function (file.py:12)", with ":12, now :15" where it moved; of a renamed one the new name behind it. -ENOMEM. */
int compared__text(const struct compared *row, struct text *out);
/* A value of an estimate: "4.14 ms", "12.3 calls", "5.0 %"; in so many bytes. */
#define COMPARE_VALUE_BYTES 48
void compare__value(const struct comparison *comparison, double value, char out[COMPARE_VALUE_BYTES]);
/* "+5.3 % [3.1, 7.6]"; "new" where the base has nothing. */
#define COMPARE_CHANGE_BYTES 80
void compare__change(const struct change *change, char out[COMPARE_CHANGE_BYTES]);
/* The verdict in one line, and what is named first in another, where there is something. -ENOMEM. */
int compare__verdict(const struct comparison *comparison, FILE *out);
int compare__leading(const struct comparison *comparison, FILE *out);
/* What the sides are, and how well the differences between them are known; lines without their ends. */
void compare__side(const struct side *side, FILE *out);
void compare__caveat(const struct comparison *comparison, FILE *out);
/* Whether the machine had less time for one of them, and then that, as a line without its end. Of wall time alone. */
bool compare__load(const struct comparison *comparison, FILE *out);

/* compare_text.c: limit: rows of each table; all: rows without a difference, too. -ENOMEM. */
int compare__print(const struct comparison *comparison, size_t limit, bool all, FILE *out);
/* The same as tables of Markdown, for a merge request. */
int compare__print_markdown(const struct comparison *comparison, size_t limit, bool all, FILE *out);
/* compare_json.c: .design/comparison.md lists the keys. New reference; NULL: no memory. */
json_t *compare__json(const struct comparison *comparison);

#endif
