// SPDX-License-Identifier: GPL-2.0-or-later
/* What answers are made of: a target's samples and figures at a moment, as plain data. */
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/targets/generations.h"
#include "daemon/os/clock.h"

/* Least time between two polls of perf maps by requests. */
#define REQUEST_POLL_NS 5000000ull

void engine_fill_snapshot(const struct target *t, struct engine_snapshot *s)
{
	const struct target *proper = target__proper(t);

	s->info = t->info;
	s->begin_ns = t->begin_ns;
	s->begin_wall_ns = t->begin_wall_ns;
	s->duration_ns = t->begin_ns ? (t->end_ns ?: clock__now_ns()) - t->begin_ns : 0;
	s->period_ns = t->period_ns;
	s->cuda = cuda_targets__watches(proper) || t->cuda.end;
	s->of_steps = t->span.count > 0;
	s->steps_ns = t->span.from_ns;
	s->steps_end_ns = t->span.to_ns;
	s->wall_lost_ns = samples__wall_lost_ns(&t->samples);
	s->wall_hz = t->info.wall ? waits__hz(proper) : 0;
	s->attach_ns = t->attach_ns;
	s->cpu_ns_before = t->cpu_ns_before;
	s->seen_processes = t->seen_processes;
	s->lost = samples__lost(&t->samples, &s->slot);
	s->main_file = proper->main_file;
	s->own_namespaces = t->own_namespaces;
	s->python = target_python__facts(&proper->python);
}

void engine_hold_snapshot(struct target *t, struct engine_snapshot *s)
{
	t->users++;
	s->held = t;
	process_label_table__copy(engine_labels(t), &s->labels);
	thread_names__copy(&target__proper(t)->thread_names, &s->thread_names);
}

void engine_subtract_moment(struct engine_snapshot *s, const struct samples_moment *from)
{
	s->slot.taken -= from->slot.taken;
	s->slot.run_ns -= from->slot.run_ns;
	s->slot.steps_lost -= from->slot.steps_lost;
	s->slot.entries_lost -= from->slot.entries_lost;
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
		s->slot.lost[i] -= from->slot.lost[i];
	s->wall_lost_ns -= from->wall_lost_ns;
	s->python.names.stale -= from->names.stale;
	s->python.names.unreadable -= from->names.unreadable;
}

/* Its figures become those of the samples that are in memory. */
static void leave_out_forgotten(const struct target *t, struct engine_snapshot *s)
{
	const struct samples_moment *oldest = generations__oldest(t);

	if (!oldest)
		return;
	s->forgotten = samples__forgotten(&t->samples);
	engine_subtract_moment(s, oldest);
	s->begin_ns = oldest->at_ns;
	s->begin_wall_ns = (uint64_t)oldest->wall_ns;
	s->duration_ns = (t->end_ns ?: clock__now_ns()) - oldest->at_ns;
}

static void fill_marks(const struct target *t, struct engine_snapshot *s)
{
	for (unsigned i = 0; i < SO_MARKS; i++) {
		memcpy(s->counted[i], t->marks[i].name, sizeof(s->counted[i]));
		s->unwatched |= t->marks[i].name[0] && target__proper(t)->marks[i].python.unwatched;
	}
}

static int take_locked(struct engine *e, uint32_t id, struct caller caller, struct engine_snapshot *s,
		       struct so_error *err)
{
	struct target *t = targets__find(&e->targets, id);
	int ret;

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (t->info.state == TARGET_SAMPLING)
		collector__drain(&e->collector);
	/* After what was drained: an exec is reported before the new program's first sample. */
	ret = viewers__hidden_from(t, caller, &s->hidden);
	if (ret == -EPERM)
		return so_err(err, ret, "target %u is shown to root alone", id);
	if (ret || samples__copy(&t->samples, &s->acc) ||
	    call_times__copy(&target__proper(t)->calls, t->begin_ns, &s->calls))
		return so_err(err, -ENOMEM, "out of memory");
	engine_fill_snapshot(t, s);
	engine_hold_snapshot(t, s);
	fill_marks(t, s);
	leave_out_forgotten(t, s);
	return 0;
}

void engine_before_drain(struct engine *e)
{
	waits__update(e->waits);
	jit_names__poll(e->jits, REQUEST_POLL_NS);
}

int engine_take_snapshot(struct engine *e, uint32_t id, struct caller caller, struct engine_snapshot *s,
			 struct so_error *err)
{
	int ret;

	engine_before_drain(e);
	pthread_mutex_lock(&e->lock);
	ret = take_locked(e, id, caller, s, err);
	pthread_mutex_unlock(&e->lock);
	return ret;
}

void engine_release_snapshot(struct engine *e, struct engine_snapshot *s)
{
	accumulator__release(&s->acc);
	call_times__release(&s->calls);
	process_label_table__release(&s->labels);
	thread_names__release(&s->thread_names);
	u64_table__release(&s->hidden);
	if (!s->held)
		return;
	pthread_mutex_lock(&e->lock);
	engine_unhold(e, s->held);
	pthread_mutex_unlock(&e->lock);
}
