// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is kept of a target that is watched for as long as it lives. Its distinct stacks grow without end, so they are kept
 * in two generations: when the younger one has grown to its size, the older one is forgotten, its figures excepted, and the
 * younger takes its place. The target's profile begins where the older one does. Windows lose nothing by it: what they and
 * views have counted in the generation that turns old goes with them. Whoever takes windows is to take them then
 * (target_info.window_carries); the bound on what they carry is for when nobody does.
 *
 * A recording of one client is not touched: it has all of its samples, or tells what it could not keep.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_files.h"
#include "daemon/os/u64_table.h"

#define WINDOW_GENERATIONS 4 /* how much a window may carry: so many times the size of one */

/* Of a target's fair part: two generations, and what windows and views carry along. */
static size_t generation_bytes(const struct engine *e)
{
	size_t n = 0, fair;

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		n += e->targets[i] && e->targets[i]->info.state != TARGET_ENDED;
	fair = ENGINE_ALL_SAMPLES_BYTES / (n ?: 1) / 4;
	return fair < e->generation_bytes ? fair : e->generation_bytes;
}

void engine_moment_now(struct engine *e, struct target *t, struct engine_moment *out)
{
	uint64_t now_ns = clock__now_ns();

	engine_target_lost(e, t, &out->slot);
	out->names = engine_names_stats(t);
	out->at_ns = t->end_ns ? t->end_ns : now_ns;
	out->wall_ns = (int64_t)(clock__read_ns(CLOCK_REALTIME) - (now_ns - out->at_ns));
}

void engine_subtract_moment(struct engine_snapshot *s, const struct engine_moment *from)
{
	s->slot.taken -= from->slot.taken;
	s->slot.run_ns -= from->slot.run_ns;
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
		s->slot.lost[i] -= from->slot.lost[i];
	s->names.stale -= from->names.stale;
	s->names.unreadable -= from->names.unreadable;
}

/* What goes with views and windows, by slot; the windows' own two behind. */
struct carried {
	struct accumulator views[SO_MAX_SLOTS];
	struct accumulator windows[2];
};

static void carried__free(struct carried *c)
{
	for (unsigned i = 0; c && i < SO_MAX_SLOTS; i++)
		accumulator__release(&c->views[i]);
	for (unsigned i = 0; c && i < 2; i++)
		accumulator__release(&c->windows[i]);
	free(c);
}
CLEANUP_DEFINE(struct carried *, carried, carried__free)

static bool is_view_of(const struct target *view, const struct target *t)
{
	return view && view->of == t && view->info.state != TARGET_ENDED;
}

/* Labels of processes that live, or that samples are of. */
struct wanted_labels {
	struct engine *engine;
	struct u64_table counted; /* by pid */
};

static bool is_wanted(void *context, pid_t tgid)
{
	const struct wanted_labels *wanted = context;
	uint32_t any;

	return process_table__find(wanted->engine->processes, tgid) ||
	       u64_table__get(&wanted->counted, (uint64_t)tgid, &any);
}

static int want_labels(struct wanted_labels *wanted, const struct accumulator *acc)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < acc->n_counters; i++)
		ret = u64_table__set(&wanted->counted, acc->counters[i].tgid, 1);
	return ret;
}

static int want_window_labels(struct wanted_labels *wanted, const struct target *t)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < 2; i++) {
		const struct accumulator *carried = engine_window_carried(t, i);

		ret = carried ? want_labels(wanted, carried) : 0;
	}
	return ret;
}

/* What windows have counted in the generation that turns old is in that. */
static void forget_labels(struct engine *e, struct target *t)
{
	struct wanted_labels wanted = { .engine = e };
	int ret = want_labels(&wanted, &t->acc) ?: want_window_labels(&wanted, t);

	for (unsigned i = 0; !ret && i < SO_MAX_SLOTS; i++)
		ret = is_view_of(e->targets[i], t) ? want_labels(&wanted, &e->targets[i]->acc) : 0;
	if (!ret)
		process_label_table__keep(&t->labels, is_wanted, &wanted);
	u64_table__release(&wanted.counted);
}

static int turn(struct engine *e, struct target *t)
{
	_cleanup_(carried) struct carried *carried = calloc(1, sizeof(*carried));
	struct engine_moment now;
	int ret = carried ? engine_copy_window_parts(t, carried->windows) : -ENOMEM;

	for (unsigned i = 0; !ret && i < SO_MAX_SLOTS; i++) {
		if (is_view_of(e->targets[i], t))
			ret = engine_copy_view_part(e->targets[i], &carried->views[i]);
	}
	if (ret)
		return ret;
	/* Nothing fails from here on. */
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (is_view_of(e->targets[i], t))
			engine_turn_view(e->targets[i], &carried->views[i]);
	}
	forget_labels(e, t);
	engine_turn_windows(t, carried->windows, WINDOW_GENERATIONS * generation_bytes(e));
	/* Views have stacks now that were their target's. */
	engine_files_changed(e);
	engine_moment_now(e, t, &now);
	accumulator__add_figures(&t->forgotten, &t->older);
	accumulator__release(&t->older);
	t->older = t->acc;
	t->older_since = t->acc_since;
	t->acc = (struct accumulator){ .max_bytes = t->older.max_bytes, .window = t->older.window };
	t->acc_since = now;
	return 0;
}

void engine_turn_generations(struct engine *e)
{
	size_t most = generation_bytes(e);

	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		struct target *t = e->targets[i];

		/* For want of memory it is tried again; what does not fit meanwhile is counted as lost. */
		if (t && t->info.keep && !t->of && t->info.state == TARGET_SAMPLING && t->acc.bytes > most)
			turn(e, t);
	}
}

int engine_copy_samples(const struct target *t, struct accumulator *out)
{
	struct accumulator acc;
	int ret;

	if (t->of && t->info.state != TARGET_ENDED)
		return engine_copy_view(t, out);
	ret = accumulator__copy(&t->older, &acc);
	if (ret)
		return ret;
	ret = accumulator__merge(&acc, &t->acc);
	if (ret)
		accumulator__release(&acc);
	else
		*out = acc;
	return ret;
}

void engine_since_oldest(const struct target *t, struct engine_snapshot *s)
{
	uint64_t end_ns = t->end_ns ? t->end_ns : clock__now_ns();

	s->forgotten = t->forgotten.samples;
	if (!s->forgotten)
		return;
	engine_subtract_moment(s, &t->older_since);
	s->begin_ns = t->older_since.at_ns;
	s->begin_wall_ns = (uint64_t)t->older_since.wall_ns;
	s->duration_ns = end_ns - t->older_since.at_ns;
}

size_t engine_target_bytes(const struct target *t)
{
	return t->acc.bytes + t->older.bytes + t->cuda.stacks.bytes + engine_windows_bytes(t);
}
