/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines that the user wrote (own_line.h), each with all that it calls in others' code; and the verdict. */
#ifndef STAKEOUT_CLIENT_SUMMARY_OWN_H
#define STAKEOUT_CLIENT_SUMMARY_OWN_H

#include <stdio.h>

#include "client/summary/summary_categories.h"
#include "client/summary/summary_names.h"

/* Each sample is in one row, or in rows->none; in order of self, which is total. -ENOMEM. */
int rows__of_own_lines(const struct scope *scope, struct rows *out);

/*
 * Three lines: what takes most time, how sure that is, and where to look. What: an activity, unless one line takes
 * clearly more; a mechanism, unless one line takes half as much; else the line. Nothing without samples. -ENOMEM.
 */
int summary_own__print_verdict(const struct rows *own, const struct category_table *categories,
			       const struct names *functions, const struct scope *scope, FILE *out);
/* The table of them. */
void summary_own__print(const struct rows *own, const struct scope *scope, FILE *out);

#endif
