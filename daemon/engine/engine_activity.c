// SPDX-License-Identifier: GPL-2.0-or-later
/* What a target does at this moment, in a few figures. */
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/os/clock.h"

static void fill(struct engine *e, const struct target *t, struct engine_activity *out)
{
	struct so_slot slot;

	out->now_ns = clock__now_ns();
	samples__lost(&t->samples, &slot);
	out->running_ns = slot.taken * t->period_ns;
	out->slow_begin_ns = t->slow.slow_begin_ns;
	out->slow_step_ns = t->slow.slow_ns;
	out->usual_ns = t->slow.usual_ns;
	out->slow_under_way = t->slow.under_way;
	out->refused = gpu_memory__refused(&e->gpu_memory, t);
	out->ended = t->info.state == TARGET_ENDED;
	out->pid = t->info.pid;
	memcpy(out->comm, t->info.comm, sizeof(t->info.comm));
}

int engine__activity(struct engine *e, uint32_t id, uint64_t since_ns, struct engine_activity *out)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0;
	struct target *t;

	*out = (struct engine_activity){ .gpu_percent = -1 };
	pthread_mutex_lock(&e->lock);
	t = targets__find(&e->targets, id);
	if (t) {
		fill(e, t, out);
		if (since_ns && cuda_targets__pids(t, &pids, &n))
			n = 0;
	}
	pthread_mutex_unlock(&e->lock);
	if (!t)
		return -ENOENT;
	if (n)
		out->gpu_percent = cuda_targets__gpu_percent(e->cuda, pids, n, since_ns);
	return 0;
}

void engine__forgive_slow(struct engine *e, uint32_t id)
{
	struct target *t;

	pthread_mutex_lock(&e->lock);
	t = targets__find(&e->targets, id);
	if (t)
		steps__forgive_slow(t);
	pthread_mutex_unlock(&e->lock);
}
