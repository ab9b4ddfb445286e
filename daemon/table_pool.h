/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lays compiled unwind tables out in the kernel's shards (stakeout/abi.h) and shares their rules. */
#ifndef STAKEOUT_TABLE_POOL_H
#define STAKEOUT_TABLE_POOL_H

#include "daemon/sampler.h"
#include "daemon/unwind_table.h"

struct table_pool;

/* Where a run of a table's blocks lies. */
struct table_piece {
	uint64_t first_block;
	uint32_t n_blocks;
	uint32_t shard;
	uint32_t index; /* offset in the shard */
};

struct table_pieces {
	struct table_piece *pieces; /* sorted by first_block; NULL when n is 0 */
	size_t n;
};

struct table_pool_stats {
	uint64_t rows, index_words, rules, rules_refused;
	uint64_t bytes; /* of rows, index words and rules in use */
};

/* sampler: borrowed. */
int table_pool__new(struct sampler *sampler, struct table_pool **out);
/*
 * Copies the table into the pool. *out's array is the caller's to free. -ENOSPC when the pool is full, -EFBIG when an
 * address lies beyond what a piece can name; nothing then refers to what was copied.
 */
int table_pool__add(struct table_pool *pool, const struct unwind_table *table, struct table_pieces *out);
/*
 * Reads back what the pieces say of blocks [first, end): calls visit for each row in order of address, first for the
 * one that applies where the range begins. rule: NULL where there is none. Blocks that no piece has give one row
 * without a rule.
 */
int table_pool__each_row(struct table_pool *pool, const struct table_pieces *pieces, uint64_t first,
			 uint64_t end,
			 void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule),
			 void *context);
/*
 * The addresses around `vaddr` for which the pieces have no rule, no further than `reach` bytes away: [*low, *high). For
 * an address that has a rule the two are equal.
 */
int table_pool__gap(struct table_pool *pool, const struct table_pieces *pieces, uint64_t vaddr, uint64_t reach,
		    uint64_t *low, uint64_t *high);
/* Forgets all tables. No process may refer to them any more. */
void table_pool__reset(struct table_pool *pool);
struct table_pool_stats table_pool__stats(const struct table_pool *pool);
void table_pool__free(struct table_pool *pool);
CLEANUP_DEFINE(struct table_pool *, table_pool, table_pool__free)

#endif
