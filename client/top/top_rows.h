/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of a table of `stakeout top`: in order, and only those that its user wants to see. */
#ifndef STAKEOUT_CLIENT_TOP_ROWS_H
#define STAKEOUT_CLIENT_TOP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/render/frame_text.h"
#include "client/session/process_list.h"
#include "client/top/top_memory.h"
#include "client/top/top_sums.h"
#include "client/top/top_view.h"

#define TOP_COLUMNS (TOP_SORTS - 1)

struct top_row {
	bool process;   /* whose threads follow, and then the processes that it started */
	unsigned depth; /* in the tree */
	int64_t pid, tid;
	double ns[TOP_COLUMNS]; /* threads: by top_part; a process: of its own threads; else by top_value */
	struct text text;
	/* Of a process: bytes of its own, and bytes a second; NAN: not known, as of a thread. */
	double own, growth;
	size_t name_length; /* of a thread's text: what it is called, before where it is */
};

/* All zero is an empty one. */
struct top_rows {
	struct top_row *list;
	size_t n, capacity;
};

/* processes: whose child is whose; as much of it as is known, and of memory. -ENOMEM. */
int top_rows__of(const struct top_sums *sums, const struct process_list *processes, const struct top_memory *memory,
		 const struct top_view *view, struct top_rows *out);
void top_rows__clear(struct top_rows *rows);
CLEANUP_DEFINE_OF(struct top_rows, top_rows, top_rows__clear)

/* What a column is called, and its order. */
const char *top_rows__column(enum top_table table, unsigned column);

#endif
