/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that a summary shows about where the time went, counted once, for text and JSON. */
#ifndef STAKEOUT_CLIENT_SUMMARY_TABLES_H
#define STAKEOUT_CLIENT_SUMMARY_TABLES_H

#include "client/summary/summary.h"
#include "client/summary/summary_categories.h"
#include "client/summary/summary_names.h"
#include "client/summary/summary_wall.h"

struct summary_tables {
	struct scope scope;
	struct names all_names;  /* of functions */
	struct names some_names; /* of Python functions, with python_only; else empty */
	struct names line_names;
	struct rows functions, lines, own, threads, processes;
	struct category_table *categories;
	struct summary_wall *wall; /* NULL: the profile is none in wall time */
};

/* What points to what: the scope to profile and request, all else into the names. -ENOMEM, -EFBIG. */
int summary_tables__init(const struct profile *profile, const struct summary_request *request,
			 struct summary_tables *out);
void summary_tables__clear(struct summary_tables *tables);
CLEANUP_DEFINE(struct summary_tables *, summary_tables, summary_tables__clear)

#endif
