/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of the summary (render__summary()) and what they share. Functions that print return 0 or -errno. */
#ifndef STAKEOUT_CLIENT_SUMMARY_PARTS_H
#define STAKEOUT_CLIENT_SUMMARY_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/render/render.h"
#include "client/summary/summary_names.h"

/* figures.c: the `--stats` object, and what a profile says in its place. */

/* A number of the object. false: absent, null or no number. */
bool figures__number(const json_t *object, const char *key, double *out);
/* The figures that the daemon keeps as comments (.design/profile-format.md). New reference; NULL: another tool's. */
json_t *figures__from_comments(const struct profile *profile);
/* The same where the daemon's own (NULL: none) are of more than the profile, or are not there; NULL: they serve. */
json_t *figures__of(const struct profile *profile, const json_t *stats);
/* "truncated 3: no-rules 2, depth 1". causes: an object of numbers; *sum is their sum, untouched without one. */
int figures__print_causes(const char *what, const json_t *causes, double *sum, FILE *out);
/* "complete 99.9 %": 100.0 means all of them. */
void figures__print_complete(double complete, double all, FILE *out);

/* summary_table.c: how shares and names are printed, and the tables that rank rows. */

#define SUMMARY_INDENT "                                        " /* under a row's name */
static inline const char *summary__seconds_head(const struct scope *scope)
{
	return scope->profile->wall ? "   wall s " : "    CPU s ";
}

static inline double summary__percent(const struct share *share, const struct share *total)
{
	return total->samples ? 100 * (double)share->samples / (double)total->samples : 0;
}

/* "[ 5.0, 12.3]", in columns. */
void summary__interval(const struct profile *profile, int64_t hits, int64_t total, char text[32]);
/* " 12.0 %  [10.1, 14.2]       1.20 s  ": '-' for the seconds where the profile tells no time. */
void summary__print_share(const struct share *share, const struct scope *scope, FILE *out);
#define SUMMARY_SHARE_COLUMNS 35 /* of summary__print_share() */

/* Of a page: a blank line, and what the table below is. */
void summary__title(const struct scope *scope, const char *text, FILE *out);
/* The second line of a verdict: how well the interval is known that so many samples (of the profile's) gave. */
void summary__how_sure(const struct scope *scope, int64_t samples, FILE *out);
/* Nothing without colour. */
void summary__bold(const struct scope *scope, FILE *out);
void summary__plain(const struct scope *scope, FILE *out);
/* A name that begins in that column, cut in its middle so that the terminal holds it. */
void summary__print_cell(const struct scope *scope, size_t column, const char *text, size_t length, FILE *out);
/* A name, cut in its middle when it is long. Valid UTF-8. */
void summary__print_name(const char *text, size_t length, FILE *out);
/* The same, in a list of names. */
void summary__print_short(const char *text, size_t length, FILE *out);
/* Any text of somebody else's, cleaned and cut. */
int summary__print_foreign(const char *words, FILE *out);

/* "  rank 3  container 0123456789ab", of those known, each behind `before`; an id is cut as container tools do. */
int summary__print_labels(const char *before, const char *rank, const char *container, FILE *out);

/* The functions with most self time, with their total time. rows: sorted by self. */
void summary__functions(const struct rows *rows, const struct scope *scope, FILE *out);
/* The functions with most total time, of Python if there are any; reorders the rows. */
void summary__totals(struct rows *rows, const struct scope *scope, FILE *out);
/* Threads, or processes ("thread", "process"), nothing with one alone. */
void summary__threads(const struct rows *rows, const char *what, const struct scope *scope, FILE *out);
/* The same of processes; short-lived ones of one name are one row, unless details are asked for. -ENOMEM. */
int summary__processes(const struct rows *rows, const struct scope *scope, FILE *out);
/* What of rows is behind the printed ones, and what has no name. */
void summary__print_rest(const struct rows *rows, size_t n, const char *what, FILE *out);

/* summary_lines.c: source lines. Nothing without any. */
void summary__lines(const struct rows *rows, const struct names *names, const struct scope *scope, FILE *out);

#define SUMMARY_TOP_ROWS 10

/* summary_python.c: how well Python was seen, and who held the GIL. Nothing without Python. */

/* stats: for the length of the recording; figures: the same, or what the comments say. Either may be NULL. */
int summary__python(const struct profile *profile, const json_t *stats, const json_t *figures, FILE *out);
/* The threads with most CPU time and how much of it they held the GIL; nothing with one Python thread alone. */
int summary__python_threads(const struct profile *profile, int64_t total, FILE *out);

/* summary_jit.c: the shares in just-in-time code: CPython's own, and much without names. Nothing without either. */
void summary__jit(const struct profile *profile, int64_t total, FILE *out);

#endif
