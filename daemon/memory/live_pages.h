/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The chosen pages of a target (stakeout/pages_abi.h), each with the latest stack that touched it first. Whether they
 * are still resident is looked up at the end (resident_pages.h).
 *
 * A page's weight follows from the lowest threshold since it was touched: only those below it are still followed, and
 * what was chosen by a higher one is forgotten with it, so the sum of what is left stays unbiased. Not thread-safe.
 */
#ifndef STAKEOUT_LIVE_PAGES_H
#define STAKEOUT_LIVE_PAGES_H

#include "daemon/os/u64_table.h"
#include "daemon/profile/accumulator.h"
#include "stakeout/pages_abi.h"

/* What one target's may be; where there are more, every second one is forgotten. */
#define LIVE_PAGES_MAX         65536
#define LIVE_PAGES_STACK_BYTES (16u << 20)

struct live_page {
	uint64_t page; /* address >> SO_PAGE_SHIFT */
	uint64_t when_ns;
	uint32_t tgid, tid;
	uint32_t hash;
	uint32_t below; /* the lowest threshold since then */
	uint32_t stack; /* index of live_pages.stacks */
	char comm[16];
};

/* All zero is an empty one. */
struct live_pages {
	struct live_page *pages;
	size_t n, capacity;
	struct u64_table by_page;
	struct stack **stacks;
	size_t n_stacks, stacks_capacity, stack_bytes;
	struct u64_table stack_by_hash;
};

/* Bytes that one chosen page is scaled to. */
static inline double live_pages__weight(uint32_t threshold)
{
	return 4294967296.0 / threshold * (1u << SO_PAGE_SHIFT);
}

/*
 * Pages of a record were touched: those that were chosen, and are below `follow` as well, are kept, each in the place
 * of its touch before. What there is no memory for is left out.
 */
void live_pages__touch(struct live_pages *l, uint64_t salt, uint32_t follow, const struct so_page_record *record,
		       const struct stack *stack);
/* From now on only pages below the threshold are followed. -ENOMEM: all are forgotten. */
int live_pages__lower(struct live_pages *l, uint32_t threshold);
/* Forgets the pages of processes that do not live. -ENOMEM: all are forgotten. */
int live_pages__keep(struct live_pages *l, bool (*lives)(void *context, uint32_t tgid), void *context);
/* Whether the bounds above are passed: the threshold is to be halved. */
bool live_pages__is_full(const struct live_pages *l);
size_t live_pages__bytes(const struct live_pages *l);
/* Shares the stacks; for work outside the engine's lock. -ENOMEM. */
int live_pages__copy(const struct live_pages *from, struct live_pages *to);
void live_pages__release(struct live_pages *l);

#endif
