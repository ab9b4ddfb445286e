/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The summary by category. Each sample belongs to exactly one, so that shares add up to the whole: the innermost
 * activity on its stack, without one the first mechanism in the rules' order, without one what its leaf is
 * ("other Python", …). Apart from that each sample has a means: its mechanism, or what its leaf is.
 * .design/summary.md has the reasons.
 */
#ifndef STAKEOUT_CLIENT_SUMMARY_CATEGORIES_H
#define STAKEOUT_CLIENT_SUMMARY_CATEGORIES_H

#include <stdio.h>

#include "profile/category_rules.h"
#include "client/summary/summary_names.h"
#include "stakeout/cleanup.h"

/* A part of a category. */
struct part {
	const char *text; /* not terminated */
	size_t length;
	struct share share;
	size_t row; /* used in the making */
};

/* Sorted by samples. */
struct parts {
	struct part *list;
	size_t n;
};

struct category_row {
	const char *name;
	const char *kind; /* "activity", "mechanism" or "leftover" */
	struct share share;
	/*
	 * Functions: of an activity the innermost Python one within it, so that it is named by what it does rather
	 * than by the C code that this ends in; the leaf where there is none, and elsewhere.
	 */
	struct parts functions;
	/* Python lines that call the category's outermost frame, or for all but activities the innermost ones. */
	struct parts callers;
	struct parts means;
};

struct category_table {
	struct category_row *rows; /* those with samples, sorted by them */
	size_t n;
	struct part *means; /* of all samples, sorted */
	size_t n_means;
	struct part *functions, *callers; /* what the rows' parts lie in */
};

/* functions, lines: names of the same scope. What comes out points into the names and rules, which stay. -ENOMEM. */
int summary_categories__new(const struct scope *scope, const struct category_rules *rules,
			    const struct names *functions, const struct names *lines, struct category_table **out);
void summary_categories__free(struct category_table *table);
CLEANUP_DEFINE(struct category_table *, category_table, summary_categories__free)

/* summary_category_text.c. All categories; with details their five leading functions, means and callers. */
void summary_categories__print(const struct category_table *table, const struct scope *scope, FILE *out);
/* The means of all. */
void summary_categories__print_means(const struct category_table *table, const struct scope *scope, FILE *out);

#endif
