// SPDX-License-Identifier: GPL-2.0-or-later
/* A target's profile in windows (windows.h), and its CUDA calls (cuda_window.h). */
#include <errno.h>
#include <string.h>

#include "daemon/targets/cuda_window.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/os/log.h"

/* The wall clock may be set. Smaller differences to CLOCK_MONOTONIC are slewing: no gap between windows. */
#define MAX_SLEW_NS ((int64_t)50000000)

static int begin_locked(struct engine *e, uint32_t id, bool cuda, struct so_error *err)
{
	struct target *t = targets__find(&e->targets, id);
	int ret = -EINVAL;

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (t->begin_ns)
		ret = windows__begin(&t->samples, t->begin_ns, (int64_t)t->begin_wall_ns);
	if (ret == -EEXIST)
		return so_err(err, ret, "the windows of target %u are taken already", id);
	if (ret == -EINVAL)
		return so_err(err, ret, "target %u takes no samples of its own", id);
	if (ret)
		return so_err(err, ret, "out of memory");
	t->window_cuda = cuda;
	t->window_cuda_missed = false;
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
	t = targets__find_windowed(&e->targets, id);
	if (t) {
		windows__end(&t->samples);
		cuda_targets__end_windows(t);
		engine_unhold(e, t);
	}
	pthread_mutex_unlock(&e->lock);
}

/* Where the clock was set, the window lies where the clock now says that it was. */
static int64_t begin_of(const struct samples_moment *from, const struct samples_moment *to)
{
	int64_t by_clock = to->wall_ns - (int64_t)(to->at_ns - from->at_ns), set = by_clock - from->wall_ns;

	return set > MAX_SLEW_NS || set < -MAX_SLEW_NS ? by_clock : from->wall_ns;
}

/* The samples do not wait for the calls, which a later window has then. */
static void miss_cuda(int error, struct target *t)
{
	if (error && !t->window_cuda_missed)
		log__error("history: a window of target %u lacks its CUDA calls: %s", t->id, strerror(-error));
	t->window_cuda_missed = error != 0;
}

static void fill_window(const struct engine_snapshot *s, const struct samples_moment *from,
			const struct samples_moment *to, struct engine_window *out)
{
	out->begin_ns = begin_of(from, to);
	out->end_ns = to->wall_ns;
	out->samples = s->acc.samples;
	for (unsigned i = 0; i < SO_LOSS_COUNT; i++)
		out->lost += s->slot.lost[i];
	out->last = s->info.state == TARGET_ENDED;
	out->exited = out->last && s->info.end == TARGET_END_EXITED;
	out->hides = viewers__hide_any(s->held);
}

static int open_locked(struct engine *e, uint32_t id, struct engine_snapshot *s, struct cuda_taken **cuda,
		       struct engine_window *out, struct so_error *err)
{
	struct target *t = targets__find_windowed(&e->targets, id);
	struct samples_moment from, to;
	uint64_t lost;

	if (!t)
		return so_err(err, -ENOENT, "there are no windows of a target %u", id);
	if (t->info.state == TARGET_SAMPLING)
		collector__drain(&e->collector);
	target__moment(t, &to);
	if (windows__cut(&t->samples, &to, &s->acc, &from, &lost))
		return so_err(err, -ENOMEM, "out of memory");
	engine_fill_snapshot(t, s);
	engine_hold_snapshot(t, s);
	if (t->window_cuda)
		miss_cuda(cuda_targets__window(e->cuda, t, cuda), t);
	engine_subtract_moment(s, &from);
	s->slot.lost[SO_LOSS_MEMORY] += lost;
	fill_window(s, &from, &to, out);
	s->begin_ns = from.at_ns;
	s->begin_wall_ns = (uint64_t)out->begin_ns;
	s->duration_ns = to.at_ns - from.at_ns;
	return 0;
}

/* built: the next window begins where this one ends; otherwise this one goes on. */
static void close_window(struct engine *e, struct target *t, bool built)
{
	pthread_mutex_lock(&e->lock);
	cuda_targets__end_window(t, built);
	if (built)
		windows__move_on(&t->samples);
	else
		windows__stay(&t->samples);
	pthread_mutex_unlock(&e->lock);
}

/* The document as text; NULL: no memory. */
static char *cuda_text(struct engine *e, struct target *t, struct cuda_taken *taken)
{
	json_auto_t *document = NULL;

	return engine_cuda_document(e, t, taken, &document) ? NULL : json_dumps(document, JSON_COMPACT);
}

/* Where it cannot be built, a later window has the calls. Only the consumer of windows knows of the target's flag. */
static void build_cuda(struct engine *e, struct target *t, struct cuda_taken *taken, char **out)
{
	*out = taken ? cuda_text(e, t, taken) : NULL;
	if (!taken || *out)
		return;
	pthread_mutex_lock(&e->lock);
	cuda_targets__end_window(t, false);
	pthread_mutex_unlock(&e->lock);
	miss_cuda(-ENOMEM, t);
}

int engine__window(struct engine *e, uint32_t id, struct engine_window *out, struct so_error *err)
{
	_cleanup_(cuda_taken) struct cuda_taken *cuda = NULL;
	struct engine_snapshot s = { 0 };
	struct engine_window window = { 0 };
	int ret;

	engine_before_drain(e);
	pthread_mutex_lock(&e->lock);
	ret = open_locked(e, id, &s, &cuda, &window, err);
	pthread_mutex_unlock(&e->lock);
	if (ret)
		return ret;
	/* Windows are merged, and would be none the smaller with times. */
	s.info.timed = false;
	ret = engine_build_profile(e, &s, true, &window.profile, &window.length);
	if (!ret)
		build_cuda(e, s.held, cuda, &window.cuda);
	close_window(e, s.held, !ret);
	engine_release_snapshot(e, &s);
	if (ret)
		return so_err(err, ret, "cannot build the window's profile: %s", strerror(-ret));
	*out = window;
	return 0;
}
