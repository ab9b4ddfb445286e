// SPDX-License-Identifier: GPL-2.0-or-later
/* How a profile's time is divided into blocks, and how many steps passed in each. */
#include <errno.h>
#include <stdlib.h>

#include "client/diff/side_internal.h"
#include "profile/step_begins.h"
#include "stakeout/array.h"

/* The steps of each process: of its thread that has most. */
struct processes {
	struct step_begins *list;
	size_t n, capacity;
};

static void processes__clear(struct processes *p)
{
	for (size_t i = 0; i < p->n; i++)
		step_begins__clear(&p->list[i]);
	free(p->list);
}
CLEANUP_DEFINE(struct processes *, processes, processes__clear)

/* Two begins are one step; fewer are none. */
static int add_thread(struct processes *p, const char *text)
{
	_cleanup_(step_begins) struct step_begins *begins = &(struct step_begins){ 0 };
	int ret = step_begins__read(text, begins);
	size_t i = 0;

	if (ret || begins->n < 2)
		return ret;
	while (i < p->n && p->list[i].pid != begins->pid)
		i++;
	if (i == p->n) {
		if (ARRAY_RESERVE(p->list, p->capacity, p->n + 1))
			return -ENOMEM;
		p->list[p->n++] = (struct step_begins){ .pid = begins->pid };
	}
	if (begins->n > p->list[i].n) {
		struct step_begins fewer = p->list[i];

		p->list[i] = *begins;
		*begins = fewer;
	}
	return 0;
}

static int read_processes(const struct profile *profile, struct processes *p)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_comments; i++) {
		const char *text = step_begins__text(profile->comments[i]);

		if (text)
			ret = add_thread(p, text);
	}
	return ret;
}

/* The time in which all of them have steps; without such a time steps are not known. */
static void common_time(struct processes *p, struct time_blocks *out)
{
	int64_t begin = 0, end = INT64_MAX;

	for (size_t i = 0; i < p->n; i++) {
		const struct step_begins *s = &p->list[i];

		begin = s->ns[0] > begin ? s->ns[0] : begin;
		end = s->ns[s->n - 1] < end ? s->ns[s->n - 1] : end;
	}
	if (p->n && begin < end) {
		out->begin_ns = begin;
		out->end_ns = end;
		return;
	}
	for (size_t i = 0; i < p->n; i++)
		step_begins__clear(&p->list[i]);
	p->n = 0;
}

/* Steps that had begun at that time, the fraction of the current one included. */
static double steps_until(const struct step_begins *s, double when)
{
	size_t done = ARRAY_BEFORE(i, s->n, (double)s->ns[i] <= when);
	double length;

	if (!done || done == s->n)
		return done ? (double)(s->n - 1) : 0;
	length = (double)(s->ns[done] - s->ns[done - 1]);
	return (double)(done - 1) + (when - (double)s->ns[done - 1]) / length;
}

static void measure_block(const struct processes *p, double begin, double end, struct side_block *block)
{
	for (size_t i = 0; i < p->n; i++)
		block->steps += steps_until(&p->list[i], end) - steps_until(&p->list[i], begin);
	block->step_ns = (end - begin) * (double)p->n;
}

static bool keeps_times(const struct profile *profile)
{
	for (size_t i = 0; i < profile->n_samples; i++)
		if (profile->samples[i].time_ns > 0)
			return true;
	return false;
}

static size_t blocks_in(const struct profile *profile, const struct time_blocks *t)
{
	int64_t n = (t->end_ns - t->begin_ns) / SIDE_BLOCK_NS;

	if (!keeps_times(profile) || n < SIDE_LEAST)
		return 1;
	return n < SIDE_BLOCKS ? (size_t)n : SIDE_BLOCKS;
}

int side__add_blocks(struct side *side, const struct side_input *input, struct time_blocks *out)
{
	_cleanup_(processes) struct processes *p = &(struct processes){ 0 };
	const struct profile *profile = input->profile;
	int64_t duration = profile->duration_ns > 0 ? profile->duration_ns : 0;
	struct time_blocks t = { .first = side->n_blocks,
				 .end_ns = duration < STEP_BEGINS_MOST_NS ? duration : STEP_BEGINS_MOST_NS };
	int ret = read_processes(profile, p);
	struct side_block *blocks;

	if (ret)
		return ret;
	common_time(p, &t);
	t.n = blocks_in(profile, &t);
	t.in_time = t.n > 1;
	blocks = realloc(side->blocks, (side->n_blocks + t.n) * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	side->blocks = blocks;
	for (size_t i = 0; i < t.n; i++) {
		double length = (double)(t.end_ns - t.begin_ns) / (double)t.n,
		       begin = (double)t.begin_ns + length * (double)i;

		blocks[side->n_blocks] = (struct side_block){ .wall_ns = length, .run = input->run };
		measure_block(p, begin, begin + length, &blocks[side->n_blocks++]);
	}
	*out = t;
	return 0;
}

void time_blocks__divide(const struct time_blocks *t, const struct profile_sample *sample, double amount,
			 blocks_take *take, void *context)
{
	double length = (double)(t->end_ns - t->begin_ns) / (double)t->n, begin, end;
	bool moment = profile_sample__is_moment(sample);

	/* A sample without a time is of nowhere in a profile that keeps them. */
	if (!t->in_time) {
		take(context, t->first, amount);
		return;
	}
	begin = ((double)sample->time_ns - (double)t->begin_ns) / length;
	end = begin + (double)sample->value_ns / length;
	if (begin >= (double)t->n || (moment ? begin < 0 : end <= 0))
		return;
	if (moment || end <= begin) {
		take(context, t->first + (size_t)begin, amount);
		return;
	}
	for (size_t i = begin > 0 ? (size_t)begin : 0; i < t->n && (double)i < end; i++) {
		double from = begin > (double)i ? begin : (double)i, to = end < (double)(i + 1) ? end : (double)(i + 1);

		if (to > from)
			take(context, t->first + i, amount * (to - from) / (end - begin));
	}
}
