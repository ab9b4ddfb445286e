// SPDX-License-Identifier: GPL-2.0-or-later
/* What GET /v1/targets/ID/allocations answers: what a target allocated and freed (.design/allocations.md). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/memory/alloc_profile.h"

/* That had the program's own time, each as much. */
#define LEAST_WINDOWS 4

struct answer {
	struct engine_snapshot snapshot;
	struct allocations_taken taken;
	struct alloc_sums sums[SO_ALLOC_N_KINDS];
	uint64_t nested;
};

/* What was seen in windows by all since there are some, by CPU time. */
static double scale_of(const struct allocations_windows *w)
{
	return w->n > 0 && w->y > 0 ? fmax(1, w->own_ns / w->y) : 1;
}

/* The standard error of the bytes so scaled, by the spread of the windows' ratios. */
static double window_error(const struct allocations_windows *w)
{
	double ratio = w->y > 0 ? w->x / w->y : 0, squares = w->xx - 2 * ratio * w->xy + ratio * ratio * w->yy;

	return w->n > 1 && squares > 0 ? scale_of(w) * sqrt(squares * w->n / (w->n - 1)) : 0;
}

/* In 1/1000: what probes took of a window's time, at most; all, where too few windows had some of the program's own. */
static uint64_t probes_permille(const struct allocations_windows *w)
{
	bool few = w->n > 0 && w->y * w->y < LEAST_WINDOWS * w->yy;

	return few || (w->n > 0 && w->y <= 0) ? 1000 : (uint64_t)(1000 * w->most_share);
}

static int add_number(struct profile_builder *b, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, key, text);
}

/* memory.…: as the readers of engine_memory.c's answer know them. */
static int add_numbers(const struct answer *a, struct profile_builder *b)
{
	const struct allocations_taken *t = &a->taken;
	const struct so_alloc_slot *s = &t->slot;
	const struct allocations_windows *w = &t->windows;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "memory.page_bytes", (uint64_t)((double)SO_ALLOC_MEAN(s->shift) * scale_of(w)) },
		{ "memory.cost_ns", (uint64_t)t->spent.cost_ns },
		{ "memory.time_ns", (uint64_t)t->spent.time_ns },
		{ "memory.lost", s->lost + t->lost },
		{ "memory.ended", t->ended },
		{ "alloc.hits", s->hits + s->stepped_hits },
		{ "alloc.stepped_hits", s->stepped_hits },
		{ "alloc.chosen", s->chosen },
		{ "alloc.frees", s->frees },
		{ "alloc.nested", a->nested },
		{ "alloc.left_out", s->left_out },
		{ "alloc.unfollowed", s->unfollowed },
		{ "alloc.replaced", s->replaced },
		{ "alloc.failed", s->failed },
		{ "alloc.hidden", s->hidden },
		{ "alloc.strange", s->strange },
		{ "alloc.mean_bytes", SO_ALLOC_MEAN(s->shift) },
		{ "alloc.windows", (uint64_t)w->n },
		{ "alloc.seen_ns", t->seen_ns },
		{ "alloc.window_error_bytes", (uint64_t)window_error(w) },
		{ "alloc.probes_permille", probes_permille(w) },
		{ "alloc.linked", t->linked },
	};
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		ret = add_number(b, numbers[i].key, numbers[i].value);
	return ret;
}

static int add_comments(const struct answer *a, struct profile_builder *b)
{
	_cleanup_free_ char *sums = alloc_profile__sums_text(a->sums);
	char pid[16];
	int ret = sums ? 0 : -ENOMEM;

	snprintf(pid, sizeof(pid), "%d", a->snapshot.info.pid);
	ret = ret ?: profile_builder__comment(b, "pid", pid);
	ret = ret ?: add_numbers(a, b);
	ret = ret ?: profile_builder__comment(b, "alloc.allocators", sums);
	ret = ret ?: profile_builder__comment(b, "memory.series", a->taken.series);
	if (!ret && a->taken.problem[0])
		ret = profile_builder__comment(b, "alloc.problem", a->taken.problem);
	if (!ret && python_facts__any(&a->snapshot.python))
		ret = engine_add_python_comments(&a->snapshot.python, b);
	return ret;
}

static int build(struct engine *e, struct answer *a, uint8_t **out, size_t *length)
{
	const struct engine_snapshot *s = &a->snapshot;
	const struct alloc_profile profile = { &a->taken.reading, &a->taken.stacks, &a->taken.lives,
					       a->taken.since_ns, a->taken.end_ns,  scale_of(&a->taken.windows) };
	struct profile_source source = engine_source(e, s);
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new_values(
		s->begin_wall_ns + (a->taken.since_ns - s->begin_ns), a->taken.end_ns - a->taken.since_ns,
		alloc_value_types, ALLOC_VALUES, ALLOC_IN_USE);
	int ret;

	source.since_ns = a->taken.since_ns;
	ret = builder ? alloc_profile__samples(&source, &profile, builder, a->sums, &a->nested) : -ENOMEM;
	ret = ret ?: add_comments(a, builder);
	return ret ?: profile_builder__finish(builder, out, length);
}

static int take(struct engine *e, struct answer *a, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = allocations__take(&e->allocations, a->snapshot.held, &a->taken, err);
	pthread_mutex_unlock(&e->lock);
	ret = ret ?: allocations__read(&a->taken);
	if (ret)
		return ret;
	pthread_mutex_lock(&e->lock);
	allocations__look_who_lives(&e->allocations, &a->taken);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int engine__allocations(struct engine *e, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
			struct so_error *err)
{
	struct answer a = { .taken = { .maps = ALLOC_MAPS_NONE } };
	int ret = engine_take_snapshot(e, id, caller, &a.snapshot, err);

	ret = ret ?: take(e, &a, err);
	if (!ret) {
		ret = build(e, &a, out, length);
		if (ret)
			so_err(err, ret, "cannot build the profile: %s", strerror(-ret));
	}
	allocations_taken__release(&a.taken);
	engine_release_snapshot(e, &a.snapshot);
	return ret;
}
