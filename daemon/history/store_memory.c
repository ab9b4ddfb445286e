// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory over several windows. */
#include "daemon/history/store.h"

void store_memory_sum__add(struct store_memory_sum *sum, int64_t covered_ns, const struct store_memory *m)
{
	double ns = (double)covered_ns;

	if (!m->known || covered_ns <= 0)
		return;
	sum->ns += ns;
	sum->anonymous += ns * (double)m->anonymous;
	sum->file += ns * (double)m->file;
	sum->shared += ns * (double)m->shared;
	sum->swapped += ns * (double)m->swapped;
	sum->most = m->most > sum->most ? m->most : sum->most;
}

static int64_t rounded(double value)
{
	return (int64_t)(value + 0.5);
}

struct store_memory store_memory_sum__mean(const struct store_memory_sum *sum)
{
	if (!(sum->ns > 0))
		return (struct store_memory){ .known = false };
	return (struct store_memory){ .known = true,
				      .anonymous = rounded(sum->anonymous / sum->ns),
				      .file = rounded(sum->file / sum->ns),
				      .shared = rounded(sum->shared / sum->ns),
				      .swapped = rounded(sum->swapped / sum->ns),
				      .most = sum->most };
}
