/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * include/stakeout/unwinder.h compiled for user space, as daemon/targets/user_unwind.c does it, over the tables of a
 * fake sampler and over any memory: for the tests that compare its frames with those expected. Include cmocka.h before.
 */
#ifndef STAKEOUT_TESTS_USER_SPACE_H
#define STAKEOUT_TESTS_USER_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/fake_sampler.h"

struct so_frame_cache;

/* All or nothing, as the kernel's helper reads. */
typedef bool (*user_memory_read)(void *context, void *dst, uint32_t bytes, uint64_t address);

static struct {
	struct sampler *sampler;
	user_memory_read read;
	void *context;
	unsigned reads; /* of the last walk */
	uint32_t run;
	struct so_frame_cache *cache;
	uint64_t fs_base;
} user_space;

static bool uw_read_user(void *dst, __u32 bytes, __u64 address)
{
	user_space.reads++;
	return user_space.read(user_space.context, dst, bytes, address);
}

static const struct so_mapping *uw_mapping(__u32 i)
{
	return &sampler__mappings(user_space.sampler)[i & (SO_MAX_MAPPINGS - 1)];
}

static const __u32 *uw_shard(__u32 shard)
{
	return fake_sampler__shard(user_space.sampler, shard);
}

static const struct so_unwind_rule *uw_rule(__u32 rule)
{
	return &sampler__rules(user_space.sampler)[rule & (SO_MAX_RULES - 1)];
}

static struct so_frame_cache *uw_cache(__u32 cpu)
{
	return user_space.cache;
}

#define UW_FS_BASE() user_space.fs_base
#define UW_SEARCH    static __attribute__((unused))
#include "stakeout/unwinder.h"

static void user_space__walk(struct so_unwind *u, uint64_t pc, uint64_t mappings, uint32_t run)
{
	user_space.reads = 0;
	uw_clear(u);
	uw_start(u, pc, mappings, run);
	while (!uw_step(u))
		;
}

/*
 * Unwinds from the registers in u->regs, which a signal frame on the way changes. `mappings`: as in struct so_process.
 * The result is that of a walk without cached frames; one that fills the cache and one that finds them there must say
 * the same.
 */
__attribute__((unused)) static void user_space__unwind(struct so_unwind *u, uint64_t pc, uint64_t mappings)
{
	static struct so_frame_cache cache;
	static struct so_unwind cached;
	uint64_t regs[SO_NREGS];

	memcpy(regs, u->regs, sizeof(regs));
	user_space__walk(u, pc, mappings, 0);
	user_space.cache = &cache;
	/* Entries as others may have left them; a rule must not depend on its neighbour. */
	if (!user_space.run++)
		memset(&cache, 0xa5, sizeof(cache));
	for (unsigned pass = 0; pass < 2; pass++) {
		unsigned reads = user_space.reads;

		memcpy(cached.regs, regs, sizeof(regs));
		user_space__walk(&cached, pc, mappings, user_space.run);
		user_space.reads = reads;
		if (cached.n != u->n || cached.cause != u->cause || cached.hash != u->hash ||
		    cached.flags != u->flags || memcmp(cached.frames, u->frames, u->n * sizeof(u->frames[0])))
			fail_msg("with cached frames (pass %u): %u frames, cause %u; without: %u frames, cause "
				 "%u",
				 pass, cached.n, cached.cause, u->n, u->cause);
	}
}

#endif
