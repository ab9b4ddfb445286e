/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which words of the kernel's shards are free. Words that were given back are handed out again only some time later: a
 * sample that began before may still be reading them. Neighbouring free words are one extent, whoever had them before.
 */
#ifndef STAKEOUT_POOL_SPACE_H
#define STAKEOUT_POOL_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/kernel/sampler.h"

/* After words were given back, before they are handed out. A sample takes microseconds. */
#define POOL_SPACE_GRACE_NS 1000000000ull

struct pool_space;

/* Words [begin, end) of a shard. */
struct pool_extent {
	uint32_t shard, begin, end;
};

/* sampler: borrowed. -ENOMEM. */
int pool_space__new(struct sampler *sampler, struct pool_space **out);
/* The smallest free extent of so many words or more. False: there is none. */
bool pool_space__fitting(struct pool_space *space, uint64_t words, struct pool_extent *out);
/* The largest free extent. False: there is none. */
bool pool_space__largest(struct pool_space *space, struct pool_extent *out);
/* Makes another shard, all of it free. -ENOSPC when there are SO_MAX_SHARDS; -ENOMEM, or of the kernel. */
int pool_space__open_shard(struct pool_space *space);
/* Takes the first words of a free extent that was just found. */
void pool_space__take(struct pool_space *space, const struct pool_extent *from, uint32_t words);
/* Gives words back; later: after the grace time, since the kernel side may know them. Out of memory they stay lost. */
void pool_space__give(struct pool_space *space, const struct pool_extent *extent, bool later);
/* Words that are not handed out, those of shards that were never made and those that wait included. */
uint64_t pool_space__free_words(const struct pool_space *space);
/* All is free, at once. */
void pool_space__reset(struct pool_space *space);
void pool_space__free(struct pool_space *space);

#endif
