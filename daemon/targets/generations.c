// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/generations.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/os/u64_table.h"

#define WINDOW_GENERATIONS 4 /* how much a window may carry: so many times the size of one */

/* Of a target's fair part: two generations, and what windows and views carry along. */
static size_t generation_bytes(const struct targets *ts, size_t max_bytes)
{
	const struct target *t;
	size_t n = 0, fair;

	TARGETS_EACH(t, ts)
	n += t->info.state != TARGET_ENDED;
	fair = ENGINE_ALL_SAMPLES_BYTES / (n ?: 1) / 4;
	return fair < max_bytes ? fair : max_bytes;
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

/* Labels of processes that live, or that samples are of. */
struct wanted_labels {
	struct process_table *processes;
	struct u64_table counted; /* by pid */
};

static bool is_wanted(void *context, pid_t tgid)
{
	const struct wanted_labels *wanted = context;
	uint32_t any;

	return process_table__find(wanted->processes, tgid) || u64_table__get(&wanted->counted, (uint64_t)tgid, &any);
}

static int want_labels(struct wanted_labels *wanted, const struct accumulator *acc)
{
	int ret = 0;

	for (size_t i = 0; acc && !ret && i < acc->n_counters; i++)
		ret = u64_table__set(&wanted->counted, acc->counters[i].tgid, 1);
	return ret;
}

/* What windows have counted in the generation that turns old is in that. */
static void forget_labels(struct targets *ts, struct process_table *processes, struct target *t)
{
	struct wanted_labels wanted = { .processes = processes };
	const struct target *view;
	int ret = want_labels(&wanted, &t->samples.acc);

	if (t->samples.window)
		ret = ret ?: want_labels(&wanted, &t->samples.window->carried);
	if (t->samples.next_window)
		ret = ret ?: want_labels(&wanted, &t->samples.next_window->carried);
	TARGETS_EACH(view, ts)
	ret = ret ?: view->of == t ? want_labels(&wanted, &view->samples.acc) : 0;
	if (!ret)
		process_label_table__keep(&t->labels, is_wanted, &wanted);
	u64_table__release(&wanted.counted);
}

static int turn(struct targets *ts, struct process_table *processes, struct target *t, size_t window_bytes)
{
	_cleanup_(carried) struct carried *carried = calloc(1, sizeof(*carried));
	struct samples *s = &t->samples;
	struct samples_moment now;
	struct target *view;
	int ret = carried ? windows__copy_parts(s, carried->windows) : -ENOMEM;

	TARGETS_EACH(view, ts)
	{
		if (!ret && view->of == t)
			ret = views__copy_part(&view->samples, &carried->views[view->slot]);
	}
	if (ret)
		return ret;
	/* Nothing fails from here on. */
	TARGETS_EACH(view, ts)
	{
		if (view->of == t)
			views__turn(&view->samples, &carried->views[view->slot]);
	}
	forget_labels(ts, processes, t);
	windows__turn(s, carried->windows, window_bytes);
	/* Views have stacks now that were their target's. */
	targets__stacks_moved(ts);
	target__moment(t, &now);
	accumulator__add_figures(&s->forgotten, &s->older);
	accumulator__release(&s->older);
	s->older = s->acc;
	s->older_since = s->acc_since;
	s->acc = (struct accumulator){ .max_bytes = s->older.max_bytes, .window = s->older.window };
	s->acc_since = now;
	return 0;
}

void generations__turn(struct targets *ts, struct process_table *processes, size_t max_bytes)
{
	size_t most = generation_bytes(ts, max_bytes);
	struct target *t;

	/* For want of memory it is tried again; what does not fit meanwhile is counted as lost. */
	TARGETS_EACH(t, ts)
	{
		/* What comes before the steps that are wanted may take hours. */
		if ((t->info.keep || t->span.count) && !t->of && t->info.state == TARGET_SAMPLING &&
		    t->samples.acc.bytes > most)
			turn(ts, processes, t, WINDOW_GENERATIONS * most);
	}
}

const struct samples_moment *generations__oldest(const struct target *t)
{
	return t->samples.forgotten.samples ? &t->samples.older_since : NULL;
}
