// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A target's profile in windows, and its CUDA calls (engine_cuda_window.c). Its counters are only ever added to, so a window
 * is their difference between two moments; what they were at the beginning is kept beside the target. A view does the same,
 * but has a slot and an end.
 *
 * The beginning moves on only once the window's profile has been built, under the lock both times. What is sampled
 * meanwhile belongs to the next window.
 */
#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_cuda_window.h"
#include "daemon/os/limits.h"
#include "daemon/os/log.h"

/* The wall clock may be set. Smaller differences to CLOCK_MONOTONIC are slewing, and do not open gaps between windows. */
#define MAX_SLEW_NS ((int64_t)50000000)

/* One moment. */
struct window_base {
	uint64_t *counts; /* by index of accumulator.counters */
	size_t n;
	struct accumulator carried; /* what was counted since, in generations that have turned old */
	uint64_t lost;              /* samples of these for which that had no room */
	struct engine_moment moment;
	bool wants_cuda;
	bool cuda_missed; /* they could not be taken, which has been said; a later window has them */
};

static void window_base__free(struct window_base *base)
{
	accumulator__release(&base->carried);
	free(base->counts);
	free(base);
}
CLEANUP_DEFINE(struct window_base *, window_base, window_base__free)

/* Detached ones as well. */
static struct target *windowed_target(struct engine *e, uint32_t id)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (e->targets[i] && e->targets[i]->id == id && e->targets[i]->windows)
			return e->targets[i];
	}
	return NULL;
}

static int begin_locked(struct engine *e, uint32_t id, bool cuda, struct so_error *err)
{
	struct target *t = engine_target(e, id);
	struct window_base *base;

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (t->windows)
		return so_err(err, -EEXIST, "the windows of target %u are taken already", id);
	if (!t->begin_ns || t->base_counts)
		return so_err(err, -EINVAL, "target %u takes no samples of its own", id);
	base = calloc(1, sizeof(*base));
	if (!base)
		return so_err(err, -ENOMEM, "out of memory");
	base->moment.at_ns = t->begin_ns;
	base->moment.wall_ns = (int64_t)t->begin_wall_ns;
	base->wants_cuda = cuda;
	if (accumulator__copy(&t->older, &base->carried)) {
		window_base__free(base);
		return so_err(err, -ENOMEM, "out of memory");
	}
	base->lost = t->forgotten.samples;
	t->windows = base;
	t->users++;
	return 0;
}

int engine__begin_windows(struct engine *e, uint32_t id, bool cuda, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = begin_locked(e, id, cuda, err);
	pthread_mutex_unlock(&e->lock);
	return ret;
}

void engine__end_windows(struct engine *e, uint32_t id)
{
	struct target *t;

	pthread_mutex_lock(&e->lock);
	t = windowed_target(e, id);
	if (t) {
		window_base__free(TAKE_PTR(t->windows));
		cuda_targets__end_windows(t);
		engine_unhold(e, t);
	}
	pthread_mutex_unlock(&e->lock);
}

/* The target's counters as they are. */
static struct window_base *base_of(struct engine *e, struct target *t)
{
	_cleanup_(window_base) struct window_base *base = calloc(1, sizeof(*base));

	if (!base)
		return NULL;
	base->n = t->acc.n_counters;
	base->counts = calloc(base->n + 1, sizeof(*base->counts));
	if (!base->counts)
		return NULL;
	for (size_t i = 0; i < base->n; i++)
		base->counts[i] = t->acc.counters[i].count;
	engine_moment_now(e, t, &base->moment);
	return TAKE_PTR(base);
}

static int copy_part(const struct target *t, const struct window_base *base, struct accumulator *out)
{
	static const struct accumulator none;

	return base ? engine_copy_since(&none, &t->acc, base->counts, base->n, out) : 0;
}

int engine_copy_window_parts(const struct target *t, struct accumulator out[2])
{
	int ret = copy_part(t, t->windows, &out[0]);

	return ret ?: copy_part(t, t->next_window, &out[1]);
}

/* A window has room for one part, whatever its size. */
static void turn(struct window_base *base, struct accumulator *part, size_t max_bytes)
{
	uint64_t due;

	if (!base)
		return;
	due = base->carried.samples + part->samples;
	if (base->carried.n_counters) {
		base->carried.max_bytes = max_bytes;
		accumulator__merge(&base->carried, part);
	} else {
		accumulator__release(&base->carried);
		base->carried = *part;
		*part = (struct accumulator){ 0 };
	}
	base->lost += due - base->carried.samples;
	limits__hit(LIMIT_SAMPLE_BYTES, due - base->carried.samples);
	base->n = 0;
}

void engine_turn_windows(struct target *t, struct accumulator parts[2], size_t max_bytes)
{
	turn(t->windows, &parts[0], max_bytes);
	turn(t->next_window, &parts[1], max_bytes);
}

const struct accumulator *engine_window_carried(const struct target *t, unsigned i)
{
	const struct window_base *window = i ? t->next_window : t->windows;

	return window ? &window->carried : NULL;
}

size_t engine_windows_bytes(const struct target *t)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < 2; i++) {
		const struct accumulator *carried = engine_window_carried(t, i);

		bytes += carried ? carried->bytes : 0;
	}
	return bytes;
}

/* Where the clock was set, the window lies where the clock now says that it was. */
static int64_t begin_of(const struct engine_moment *from, const struct engine_moment *to)
{
	int64_t by_clock = to->wall_ns - (int64_t)(to->at_ns - from->at_ns), set = by_clock - from->wall_ns;

	return set > MAX_SLEW_NS || set < -MAX_SLEW_NS ? by_clock : from->wall_ns;
}

/* The samples do not wait for the calls. */
static void miss_cuda(int error, uint32_t id, const struct window_base *from, struct window_base *to)
{
	if (error && !from->cuda_missed)
		log__error("history: a window of target %u lacks its CUDA calls: %s", id, strerror(-error));
	to->cuda_missed = error != 0;
}

static int open_locked(struct engine *e, uint32_t id, struct engine_snapshot *s, struct cuda_taken **cuda,
		       struct window_base **to, struct engine_window *out, struct so_error *err)
{
	struct target *t = windowed_target(e, id);
	const struct window_base *from;
	_cleanup_(window_base) struct window_base *base = NULL;

	if (!t)
		return so_err(err, -ENOENT, "there are no windows of a target %u", id);
	from = t->windows;
	if (t->info.state == TARGET_SAMPLING)
		engine_drain(e);
	if (engine_copy_since(&from->carried, &t->acc, from->counts, from->n, &s->acc))
		return so_err(err, -ENOMEM, "out of memory");
	engine_fill_snapshot(e, t, s);
	base = base_of(e, t);
	if (!base) {
		accumulator__release(&s->acc);
		process_label_table__release(&s->labels);
		t->users--; /* the windows hold it as well */
		return so_err(err, -ENOMEM, "out of memory");
	}
	base->wants_cuda = from->wants_cuda;
	if (from->wants_cuda)
		miss_cuda(cuda_targets__window(e->cuda, t, cuda), id, from, base);
	engine_subtract_moment(s, &from->moment);
	s->slot.lost[SO_LOSS_MEMORY] += from->lost;
	out->begin_ns = begin_of(&from->moment, &base->moment);
	out->end_ns = base->moment.wall_ns;
	out->samples = s->acc.samples;
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
		out->lost += s->slot.lost[i];
	out->last = t->info.state == TARGET_ENDED;
	s->begin_ns = from->moment.at_ns;
	s->begin_wall_ns = (uint64_t)out->begin_ns;
	s->duration_ns = base->moment.at_ns - from->moment.at_ns;
	t->next_window = base;
	*to = TAKE_PTR(base);
	return 0;
}

static void move_on(struct engine *e, struct target *t, struct window_base *to)
{
	pthread_mutex_lock(&e->lock);
	cuda_targets__end_window(t, true);
	window_base__free(t->windows);
	t->windows = to;
	t->next_window = NULL;
	pthread_mutex_unlock(&e->lock);
}

/* The window goes on. */
static void stay(struct engine *e, struct target *t)
{
	pthread_mutex_lock(&e->lock);
	cuda_targets__end_window(t, false);
	t->next_window = NULL;
	pthread_mutex_unlock(&e->lock);
}

/* The document as text; NULL: no memory. */
static char *cuda_text(struct engine *e, struct target *t, struct cuda_taken *taken)
{
	json_t *document;
	char *text;

	if (engine_cuda_document(e, t, taken, &document))
		return NULL;
	text = json_dumps(document, JSON_COMPACT);
	json_decref(document);
	return text;
}

/* Where it cannot be built, the mark stays where it was. t->windows: only the consumer of windows changes it. */
static void build_cuda(struct engine *e, struct target *t, struct cuda_taken *taken, struct window_base *to,
		       char **out)
{
	*out = taken ? cuda_text(e, t, taken) : NULL;
	if (!taken || *out)
		return;
	pthread_mutex_lock(&e->lock);
	cuda_targets__end_window(t, false);
	pthread_mutex_unlock(&e->lock);
	miss_cuda(-ENOMEM, t->id, t->windows, to);
}

int engine__window(struct engine *e, uint32_t id, struct engine_window *out, struct so_error *err)
{
	_cleanup_(window_base) struct window_base *to = NULL;
	_cleanup_(cuda_taken) struct cuda_taken *cuda = NULL;
	struct engine_snapshot s = { 0 };
	struct engine_window window = { 0 };
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = open_locked(e, id, &s, &cuda, &to, &window, err);
	pthread_mutex_unlock(&e->lock);
	if (ret)
		return ret;
	ret = engine_build_profile(e, &s, true, &window.profile, &window.length);
	if (!ret) {
		build_cuda(e, s.target, cuda, to, &window.cuda);
		move_on(e, s.target, TAKE_PTR(to));
	} else {
		stay(e, s.target);
	}
	engine_release_snapshot(e, &s);
	if (ret)
		return so_err(err, ret, "cannot build the window's profile: %s", strerror(-ret));
	*out = window;
	return 0;
}
