/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a comparison is shown, and when it fails: the options that diff and baseline share. */
#ifndef STAKEOUT_CLIENT_DIFF_VIEW_H
#define STAKEOUT_CLIENT_DIFF_VIEW_H

#include "client/commands/diff_sides.h"
#include "client/diff/fail_rules.h"
#include "client/session/message.h"

struct diff_view {
	const char *per, *format, *output; /* output NULL: standard output */
	bool as_json, verbose;
	bool html; /* the command writes the page itself */
	unsigned top;
	struct option_texts fail_words;
	struct fail_rules fail_rules; /* of the words */
	enum compare_unit unit;       /* of `per`; COMPARE_UNITS: not given */
};

#define DIFF_VIEW_DEFAULTS .top = 10

/* Entries of an option table. */
#define DIFF_VIEW_ENTRIES(v)                                                                                    \
	{ OPTION_TEXT,                                                                                          \
	  0,                                                                                                    \
	  "per",                                                                                                \
	  "UNIT",                                                                                               \
	  &(v).per,                                                                                             \
	  "what is compared: time a step; a run (files of whole runs\n"                                         \
	  "that did the same work); CPU time a second; or cpu, shares\n"                                        \
	  "of the CPU time (step where both sides know steps, else cpu)" },                                     \
		{ OPTION_TEXTS,                                                                                 \
		  0,                                                                                            \
		  "fail-on",                                                                                    \
		  "RULE",                                                                                       \
		  &(v).fail_words,                                                                              \
		  "exit with status 3 where this is so with significance:\n"                                    \
		  "'total > 3 %', 'category:logging > 1 %' (of what it was),\n"                                 \
		  "'function:step > 2 pp' (points of its share); may be repeated" },                            \
		{ OPTION_TEXT, 'o', "output", "FILE", &(v).output, "where to write (-: standard output)" },     \
		{ OPTION_ON, 'j', "json", NULL, &(v).as_json, "as -f json" },                                   \
		{ OPTION_NUMBER, 0, "top", "N", OPTION_RANGE(&(v).top, 1, 100000), "rows of each table (10)" }, \
	{                                                                                                       \
		OPTION_ON, 'v', "verbose", NULL, &(v).verbose, "all rows, those without a difference too"       \
	}

/* -EINVAL, in words: wrong usage. The selection is prepared. */
int diff_view__prepare(struct diff_view *view, const struct diff_selection *selection, struct so_error *err);
/* Decides the rules of --fail-on and writes. Errors in words. */
int diff_view__write(struct diff_view *view, const struct comparison *comparison, struct so_error *err);
/* STATUS_FAIL_RULE or STATUS_DONE, of one that was written. */
enum exit_status diff_view__status(const struct diff_view *view);

#endif
