/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_TESTS_TABLE_BYTES_H
#define STAKEOUT_TESTS_TABLE_BYTES_H

#include "daemon/unwind/unwind_table.h"

/* Of the table's three arrays. */
static inline size_t table_bytes(const struct unwind_table *table)
{
	return ((size_t)table->n_blocks + 1) * sizeof(*table->index) + (size_t)table->n_rows * sizeof(*table->rows) +
	       (size_t)table->n_rules * sizeof(*table->rules);
}

#endif
