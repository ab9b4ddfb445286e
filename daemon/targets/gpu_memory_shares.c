// SPDX-License-Identifier: GPL-2.0-or-later
/* How many targets' memory on GPUs is watched, or known yet, and for whom: a view counts for its own user. */
#include <errno.h>

#include "daemon/targets/gpu_memory_internal.h"

/* The id of the target whose maps it wants or keeps; 0: none. */
static uint32_t watch_of(const struct target *t)
{
	const struct target_gpu_memory *memory = &t->gpu_memory;

	if (memory->kept)
		return memory->kept_of;
	if (t->of)
		return memory->wanted ? t->of->id : 0;
	return memory->maps && memory->asked ? t->id : 0;
}

/* Whose: a user's by number, or one of these. */
#define USERS_BUT_ROOT ((int64_t)-1)
#define EVERYONE       ((int64_t)-2)

static bool is_for(const struct target *t, int64_t who)
{
	return who == EVERYONE || (who == USERS_BUT_ROOT ? t->caller.uid != 0 : t->caller.uid == who);
}

/* NULL: none of theirs has that watch. */
static const struct target *first_with(const struct gpu_memory *g, int64_t who, uint32_t watch)
{
	const struct target *t;

	TARGETS_EACH(t, g->targets)
	{
		if (is_for(t, who) && watch_of(t) == watch)
			return t;
	}
	return NULL;
}

/* Each once, however many of theirs have it. */
static unsigned count(const struct gpu_memory *g, int64_t who)
{
	const struct target *t;
	unsigned n = 0;

	TARGETS_EACH(t, g->targets)
	n += is_for(t, who) && watch_of(t) && first_with(g, who, watch_of(t)) == t;
	return n;
}

/* Whether that watch would not be one too many, or is one of theirs anyway. */
static bool fits(const struct gpu_memory *g, int64_t who, uint32_t watch, unsigned most)
{
	return first_with(g, who, watch) || count(g, who) < most;
}

static bool has_share(const struct gpu_memory *g, const struct target *t)
{
	uint32_t watch = target__proper(t)->id;

	if (!fits(g, EVERYONE, watch, GPU_MEMORY_MAX))
		return false;
	return !t->caller.uid || (fits(g, USERS_BUT_ROOT, watch, GPU_MEMORY_MAX_USERS) &&
				  fits(g, t->caller.uid, watch, GPU_MEMORY_MAX_USER));
}

/* Of those that have ended and are kept, what was seen goes before a further one is refused. */
static struct target *ended_one(const struct gpu_memory *g, const struct target *t)
{
	struct target *other;

	TARGETS_EACH(other, g->targets)
	{
		const struct target_gpu_memory *memory = &other->gpu_memory;

		if ((memory->kept || (memory->maps && !memory->on)) &&
		    (!t->caller.uid || other->caller.uid == t->caller.uid))
			return other;
	}
	return NULL;
}

int gpu_memory_take_share(struct gpu_memory *g, const struct target *t, struct so_error *err)
{
	struct target *other;

	while (!has_share(g, t)) {
		other = ended_one(g, t);
		if (!other)
			return so_err(err, -ENOSPC,
				      "the GPU memory of %u processes is watched already%s, which is the most",
				      count(g, EVERYONE), t->caller.uid ? ", some of them yours" : "");
		gpu_memory__forget(g, other);
	}
	return 0;
}
