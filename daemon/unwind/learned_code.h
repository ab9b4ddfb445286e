/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unwind rules learned from machine code that has none of its own (daemon/unwind/stack_effect.h), for one file or one
 * anonymous mapping, and their place in the table pool: over the blocks that they touch, pieces that hold the file's
 * own rows and the learned ones together take the place of the file's.
 *
 * An address whose code could not be understood is kept too, with a rule of kind SO_CFA_NONE: the kernel side then
 * goes by the frame pointer and does not ask again.
 */
#ifndef STAKEOUT_LEARNED_CODE_H
#define STAKEOUT_LEARNED_CODE_H

#include "daemon/unwind/stack_effect.h"
#include "daemon/unwind/table_pool.h"
#include "daemon/unwind/unwind_table.h"

#define LEARNED_MAX_ROWS 65536 /* of one file or mapping; more is not learned */

/*
 * What was published at one time: all that the mapping is served by. Runs of mappings made before the next time still
 * lead to it, so its place in the pool is given back when the last of those that refer to it is gone.
 */
struct learned_table {
	struct table_pieces pieces;
	unsigned refs;
};

struct learned_code {
	struct effect_row *rows; /* sorted by address, not overlapping */
	size_t n, capacity;
	uint32_t groups;             /* rows that were learned at one time are one */
	size_t published;            /* n when the table was made */
	struct learned_table *table; /* NULL: nothing is published */
	uid_t owner;                 /* whose code it is, for table_pool__add_of() */
};

void learned_table__unref(struct learned_table *table, struct table_pool *pool); /* NULL is fine */

/* Adds rows where there are none yet. -ENOMEM, -ENOSPC. */
int learned_code__add(struct learned_code *code, const struct effect_rows *rows);
/* Remembers that the instruction at an address was not understood. */
int learned_code__add_failure(struct learned_code *code, uint64_t address);
/*
 * Forgets the rows that have changed and all that were learned together with one of them: a rule follows from the code
 * up to the return. What is published stays as it is until it is published anew. Returns how many are left.
 */
typedef bool (*learned_changed_fn)(void *context, const struct effect_row *row);
size_t learned_code__forget(struct learned_code *code, learned_changed_fn changed, void *context);
/* The rule learned for an address, or NULL. */
const struct so_unwind_rule *learned_code__find(const struct learned_code *code, uint64_t address);
/* Makes a new table of what is learned. base: the file's own pieces (n == 0: anonymous code), which must outlive it. */
int learned_code__publish(struct learned_code *code, struct table_pool *pool, const struct table_pieces *base);
/*
 * What is learned as a table of its own, to be kept in a cache, and back. Addresses that were not understood are not in
 * it. -ENOENT when nothing is left to keep; -ENOMEM, -ENOSPC.
 */
int learned_code__to_table(const struct learned_code *code, struct unwind_table **out);
int learned_code__add_table(struct learned_code *code, const struct unwind_table *table);
/* pool: where it was published; NULL if it never was. */
void learned_code__release(struct learned_code *code, struct table_pool *pool);

#endif
