// SPDX-License-Identifier: GPL-2.0-or-later
/* Stop, detach, and what there is to ask of a target. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/os/clock.h"

static int no_target(uint32_t id, struct so_error *err)
{
	return so_err(err, -ENOENT, "there is no target %u", id);
}

int engine__stop(struct engine *e, uint32_t id, struct so_error *err)
{
	struct target *t;
	int ret = 0;

	engine_before_drain(e);
	pthread_mutex_lock(&e->lock);
	t = targets__find(&e->targets, id);
	if (!t)
		ret = no_target(id, err);
	else if (t->info.state == TARGET_SAMPLING)
		engine_end_target(e, t, TARGET_END_STOPPED);
	pthread_mutex_unlock(&e->lock);
	return ret;
}

int engine__detach(struct engine *e, uint32_t id, struct so_error *err)
{
	struct target *t;
	int ret = 0;

	pthread_mutex_lock(&e->lock);
	t = targets__find(&e->targets, id);
	if (!t) {
		ret = no_target(id, err);
	} else {
		if (t->info.state == TARGET_SAMPLING)
			engine_end_target(e, t, TARGET_END_STOPPED);
		if (t->users)
			t->doomed = true;
		else
			engine_drop_target(e, t);
	}
	pthread_mutex_unlock(&e->lock);
	return ret;
}

static void fill_info(const struct target *t, struct target_info *out)
{
	uint64_t end = t->end_ns ? t->end_ns : clock__now_ns();

	*out = t->info;
	/* What will be. */
	if (t->info.state == TARGET_ATTACHING)
		out->wall = t->own_wall;
	out->elapsed_s = t->begin_ns ? (end - t->begin_ns) / 1e9 : 0;
	out->processes = target__proper(t)->living;
	out->lost = samples__lost(&t->samples, NULL);
	out->samples = samples__count(&t->samples) + out->lost;
	out->hides = viewers__hide_any(t);
	out->window_carries = windows__bytes(&t->samples) > 0;
	out->memory = memory_watch__now(t);
	out->labels = process_label_table__get(engine_labels(t), t->info.pid);
}

int engine__info(struct engine *e, uint32_t id, struct target_info *out)
{
	struct target *t;

	pthread_mutex_lock(&e->lock);
	t = targets__find(&e->targets, id);
	if (t)
		fill_info(t, out);
	pthread_mutex_unlock(&e->lock);
	return t ? 0 : -ENOENT;
}

int engine__list(struct engine *e, struct target_info **out, size_t *n)
{
	struct target_info *list = calloc(SO_MAX_SLOTS, sizeof(*list));
	const struct target *t;
	size_t found = 0;

	if (!list)
		return -ENOMEM;
	pthread_mutex_lock(&e->lock);
	TARGETS_EACH(t, &e->targets)
	{
		if (!t->doomed)
			fill_info(t, &list[found++]);
	}
	pthread_mutex_unlock(&e->lock);
	*out = list;
	*n = found;
	return 0;
}
