/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the sides of a comparison come from: files, or ranges of the daemon's history. For diff and baseline. */
#ifndef STAKEOUT_CLIENT_DIFF_SIDES_H
#define STAKEOUT_CLIENT_DIFF_SIDES_H

#include "client/commands/commands.h"
#include "client/diff/side.h"
#include "client/render/selection.h"
#include "client/session/profile_file.h"
#include "stakeout/options.h"

/* Which samples and rows: the options of summary. */
struct diff_selection {
	struct summary_request request;
	const char *categories;
	struct option_texts phase_words;
	struct category_rules *rules;
	struct phases *phases;
};

/* Entries of an option table. */
#define DIFF_SELECTION_ENTRIES(s)                                                                          \
	{ OPTION_TEXTS,                                                                                    \
	  0,                                                                                               \
	  "phase",                                                                                         \
	  "NAME=PATTERN",                                                                                  \
	  &(s).phase_words,                                                                                \
	  "the time under the functions that match this regular\nexpression, as a row; may be repeated" }, \
		{ OPTION_TEXT,     0,                                                                      \
		  "categories",    "FILE",                                                                 \
		  &(s).categories, "rules of your own for categories, before the shipped ones" },          \
		SELECTION_GIL((s).request.render), SELECTION_ONLY((s).request.render),                     \
		SELECTION_PYTHON_ONLY((s).request.render)

/* -EINVAL and others, in words: what is wrong with the words, rules or patterns. */
int diff_selection__prepare(struct diff_selection *selection, struct so_error *err);
void diff_selection__clear(struct diff_selection *selection);

/* All zero is an empty one. */
struct diff_sides {
	struct side *base, *now;
};

void diff_sides__clear(struct diff_sides *sides);
/* So many there are up to NULL. */
size_t diff_sides__count(const char *const *paths);

/* The profiles of one side, each a run. All zero is an empty one. */
struct diff_files {
	struct profile_file *files;
	struct side_input *inputs; /* for side__new(); names are borrowed */
	size_t n;
};

void diff_files__clear(struct diff_files *files);
CLEANUP_DEFINE(struct diff_files *, diff_files, diff_files__clear)
/* Errors in words, with the file's name. */
int diff_files__read(const char *const *paths, size_t n, const struct diff_selection *selection, struct diff_files *out,
		     struct so_error *err);
/*
 * Where source lines of native functions could not be read on one side, removes those of the same functions on the
 * other (client/diff/common_lines.h). *n: how many functions. -ENOMEM.
 */
int diff_files__keep_common_lines(struct diff_files *base, struct diff_files *now, size_t *n, struct so_error *err);
/* The side that they are. */
int diff_files__side(const struct diff_files *files, const struct diff_selection *selection, struct side **out,
		     struct so_error *err);
/* Both of the history of one process. base, now: "FROM..TO", each as --since has it. */
int diff_sides__of_past(const struct globals *globals, pid_t pid, const char *base, const char *now,
			const struct diff_selection *selection, struct diff_sides *out, struct so_error *err);

#endif
