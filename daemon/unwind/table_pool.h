/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lays compiled unwind tables out in the kernel's shards (stakeout/abi.h) and shares their rules. */
#ifndef STAKEOUT_TABLE_POOL_H
#define STAKEOUT_TABLE_POOL_H

#include "daemon/unwind/pool_space.h"
#include "daemon/kernel/sampler.h"
#include "daemon/unwind/unwind_table.h"

struct table_pool;

/* Of one table of a user's. The largest libraries have some thousands. */
#define TABLE_POOL_OWN_RULES 16384

/* Where a run of a table's blocks lies. */
struct table_piece {
	uint64_t first_block;
	uint32_t n_blocks;
	uint32_t shard;
	uint32_t index; /* offset in the shard */
	uint32_t
		words; /* that it has there, from `index` on; 0: they are another piece's, of which this shows a part */
};

struct table_pieces {
	struct table_piece *pieces; /* sorted by first_block; NULL when n is 0 */
	size_t n;
	uint32_t era;    /* of the pool; counted up by table_pool__reset() */
	uint32_t *rules; /* shared numbers of those that its rows name, for release */
	size_t n_rules;
	uid_t owner; /* whose share these are taken from */
	uint32_t own_rules, own_words;
};

struct table_pool_stats {
	uint64_t rows, index_words, rules; /* in use */
	uint64_t rules_refused;            /* ever */
	uint64_t bytes;                    /* of rows, index words and rules in use */
	uint64_t released;                 /* bytes of tables, ever */
	uint64_t free_bytes;               /* of SO_MAX_SHARDS shards, those that are not made yet included */
};

/* sampler: borrowed. */
int table_pool__new(struct sampler *sampler, struct table_pool **out);
/*
 * Copies the table into the pool. *out is for table_pool__release(). -ENOSPC when the pool is full, -EFBIG when an
 * address lies beyond what a piece can name; nothing is taken then.
 */
int table_pool__add(struct table_pool *pool, const struct unwind_table *table, struct table_pieces *out);
/*
 * The same for a table that another user than root has made: rules that no other table has, TABLE_POOL_OWN_RULES at
 * most, and words are taken from that user's share (user_shares.h). Where it has no more rules, rows show
 * SO_RULE_UNAVAILABLE; -EDQUOT where it has too few words.
 */
int table_pool__add_of(struct table_pool *pool, uid_t owner, const struct unwind_table *table,
		       struct table_pieces *out);
/* Whether the owner's share has room for so many words more. */
bool table_pool__has_share(const struct table_pool *pool, uid_t owner, uint64_t words);
/*
 * Gives back the words that the pieces have, for other tables after POOL_SPACE_GRACE_NS, and frees the array. No run of
 * mappings that a process still has may lead to them. Of pieces from before a reset only the arrays are freed. Rules
 * that no other table has make room for others after the same time, when all SO_MAX_RULES are taken.
 */
void table_pool__release(struct table_pool *pool, struct table_pieces *pieces);
/* Appends what `from` has, which is empty then. -ENOMEM: both are as they were. */
int table_pieces__move(struct table_pieces *to, struct table_pieces *from);
/*
 * Reads back what the pieces say of blocks [first, end): calls visit for each row in order of address, first for the
 * one that applies where the range begins. rule: NULL where there is none. Blocks that no piece has give one row
 * without a rule.
 */
int table_pool__each_row(struct table_pool *pool, const struct table_pieces *pieces, uint64_t first, uint64_t end,
			 void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule),
			 void *context);
/* [*low, *high): addresses around vaddr without a rule, within `reach` bytes; empty when vaddr has a rule. */
int table_pool__gap(struct table_pool *pool, const struct table_pieces *pieces, uint64_t vaddr, uint64_t reach,
		    uint64_t *low, uint64_t *high);
/* Forgets all tables and rules. No process may refer to them any more. */
void table_pool__reset(struct table_pool *pool);
struct table_pool_stats table_pool__stats(const struct table_pool *pool);
void table_pool__free(struct table_pool *pool);
CLEANUP_DEFINE(struct table_pool *, table_pool, table_pool__free)

#endif
