// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/windows.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/os/limits.h"

static void samples_window__free(struct samples_window *w)
{
	accumulator__release(&w->carried);
	free(w->base.counts);
	free(w);
}
CLEANUP_DEFINE(struct samples_window *, samples_window, samples_window__free)

int windows__begin(struct samples *s, uint64_t at_ns, int64_t wall_ns)
{
	_cleanup_(samples_window) struct samples_window *w = NULL;

	if (s->window)
		return -EEXIST;
	if (s->base.counts)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w || accumulator__copy(&s->older, &w->carried))
		return -ENOMEM;
	w->moment.at_ns = at_ns;
	w->moment.wall_ns = wall_ns;
	w->lost = s->forgotten.samples;
	s->window = TAKE_PTR(w);
	return 0;
}

void windows__end(struct samples *s)
{
	windows__stay(s);
	samples_window__free(TAKE_PTR(s->window));
}

bool windows__are_taken(const struct samples *s)
{
	return s->window;
}

int windows__cut(struct samples *s, const struct samples_moment *now, struct accumulator *out,
		 struct samples_moment *began, uint64_t *lost)
{
	_cleanup_(samples_window) struct samples_window *next = calloc(1, sizeof(*next));

	if (!next || samples_base__take(&next->base, &s->acc) ||
	    samples__since(&s->window->carried, &s->acc, &s->window->base, out))
		return -ENOMEM;
	next->moment = *now;
	*began = s->window->moment;
	*lost = s->window->lost;
	s->next_window = TAKE_PTR(next);
	return 0;
}

void windows__move_on(struct samples *s)
{
	samples_window__free(s->window);
	s->window = TAKE_PTR(s->next_window);
}

void windows__stay(struct samples *s)
{
	if (s->next_window)
		samples_window__free(TAKE_PTR(s->next_window));
}

static int copy_part(const struct samples *s, const struct samples_window *w, struct accumulator *out)
{
	return w ? samples__since(NULL, &s->acc, &w->base, out) : 0;
}

int windows__copy_parts(const struct samples *s, struct accumulator out[2])
{
	int ret = copy_part(s, s->window, &out[0]);

	return ret ?: copy_part(s, s->next_window, &out[1]);
}

/* A window has room for one part, whatever its size. */
static void turn(struct samples_window *w, struct accumulator *part, size_t max_bytes)
{
	uint64_t due;

	if (!w)
		return;
	due = w->carried.samples + part->samples;
	if (w->carried.n_counters) {
		w->carried.max_bytes = max_bytes;
		accumulator__merge(&w->carried, part);
	} else {
		accumulator__release(&w->carried);
		w->carried = *part;
		*part = (struct accumulator){ 0 };
	}
	w->lost += due - w->carried.samples;
	limits__hit(LIMIT_SAMPLE_BYTES, due - w->carried.samples);
	w->base.n = 0;
}

void windows__turn(struct samples *s, struct accumulator parts[2], size_t max_bytes)
{
	turn(s->window, &parts[0], max_bytes);
	turn(s->next_window, &parts[1], max_bytes);
}

size_t windows__bytes(const struct samples *s)
{
	return (s->window ? s->window->carried.bytes : 0) + (s->next_window ? s->next_window->carried.bytes : 0);
}
