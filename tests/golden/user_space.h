/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf/unwind.h compiled for user space, as daemon/user_unwind.c does it, over the tables of a fake sampler and over
 * any memory: for the tests that compare its frames with those expected.
 */
#ifndef STAKEOUT_TESTS_USER_SPACE_H
#define STAKEOUT_TESTS_USER_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/fake_sampler.h"

/* All or nothing, as the kernel's helper reads. */
typedef bool (*user_memory_read)(void *context, void *dst, uint32_t bytes, uint64_t address);

static struct {
	struct sampler *sampler;
	user_memory_read read;
	void *context;
} user_space;

static bool uw_read_user(void *dst, __u32 bytes, __u64 address)
{
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

#define UW_SEARCH static __attribute__((unused))
#include "bpf/unwind.h"

/* Unwinds from the registers in u->regs. `mappings`: as in struct so_process. */
__attribute__((unused)) static void user_space__unwind(struct so_unwind *u, uint64_t pc, uint64_t mappings)
{
	uw_clear(u);
	uw_start(u, pc, mappings);
	while (!uw_step(u))
		;
}

#endif
