// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/alloc_lives.h"

#include "stakeout/array.h"

bool alloc_lives__has(const struct alloc_lives *lives, uint32_t tgid)
{
	uint32_t unused;

	return u64_table__get(&lives->numbers, tgid, &unused);
}

int alloc_lives__add(struct alloc_lives *lives, uint32_t tgid, uint64_t since_ns)
{
	int ret = ARRAY_RESERVE(lives->since_ns, lives->capacity, lives->n + 1);

	ret = ret ?: u64_table__set(&lives->numbers, tgid, (uint32_t)lives->n);
	if (!ret)
		lives->since_ns[lives->n++] = since_ns;
	return ret;
}

bool alloc_lives__may_use(const struct alloc_lives *lives, uint32_t tgid, uint64_t when_ns)
{
	uint32_t at;

	if (!u64_table__get(&lives->numbers, tgid, &at))
		return true;
	return lives->since_ns[at] != ALLOC_LIVES_ENDED && when_ns >= lives->since_ns[at];
}

void alloc_lives__release(struct alloc_lives *lives)
{
	u64_table__release(&lives->numbers);
	free(lives->since_ns);
	*lives = (struct alloc_lives){ .n = 0 };
}
