// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/steps_seen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stakeout/array.h"
#include "stakeout/python_place.h"

#define MOST_NS   (INT64_MAX / 4) /* later, or longer, is nothing that was */
#define GOOD_PART 6               /* one in so many of a function's time */

/*
 * One sample of a thread, in the order of time. A thread that waits was looked at at its end: when the wait began is
 * reckoned, and may be too early by what the thread waited elsewhere, unseen, since the look before.
 */
struct moment {
	int64_t pid, tid, begin, end; /* begin: of a wait; else equal to end */
	bool there;
	bool waits;
};

struct moments {
	struct moment *list;
	size_t n, capacity;
};

int steps_place__parse(const char *text, struct steps_place *out, struct so_error *err)
{
	int ret = python_place__parse(text, &out->python, err);

	out->native = text;
	return ret == -ENOENT ? 0 : ret;
}

bool steps_place__is_at(const struct steps_place *place, const struct profile_line *line)
{
	const struct python_place *python = &place->python;

	if (!python->file[0])
		return !line->python && !strcmp(line->function, place->native);
	return line->python && python_place__is_file(python, line->filename) &&
	       (!python->line || line->line == python->line) &&
	       (!python->function[0] || python_place__is_function(python, line->function));
}

static bool is_there(const struct profile *profile, const struct profile_sample *sample,
		     const struct steps_place *place)
{
	for (size_t i = 0; i < sample->n_lines; i++)
		if (steps_place__is_at(place, &profile->lines[sample->lines[i]]))
			return true;
	return false;
}

static bool has_time(const struct profile_sample *sample)
{
	return sample->time_ns > 0 && sample->time_ns < MOST_NS && sample->value_ns < MOST_NS;
}

static int compare_moments(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Of one that could have run, it is not known where: the state is that of a part of the time between two looks. */
static bool is_of_use(const struct profile_sample *sample)
{
	return has_time(sample) && (!sample->state || strcmp(sample->state, "runnable"));
}

static int collect(const struct profile *profile, const struct steps_place *place, struct moments *out)
{
	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		bool waits = !profile_sample__is_moment(sample);

		if (!is_of_use(sample))
			continue;
		if (ARRAY_RESERVE(out->list, out->capacity, out->n + 1))
			return -ENOMEM;
		out->list[out->n++] = (struct moment){ .pid = sample->pid,
						       .tid = sample->tid,
						       .begin = sample->time_ns,
						       .end = sample->time_ns + (waits ? sample->value_ns : 0),
						       .there = is_there(profile, sample, place),
						       .waits = waits };
	}
	if (out->n)
		qsort(out->list, out->n, sizeof(*out->list), compare_moments);
	return 0;
}

static size_t end_of_thread(const struct moments *all, size_t from)
{
	size_t to = from;

	while (to < all->n && all->list[to].pid == all->list[from].pid && all->list[to].tid == all->list[from].tid)
		to++;
	return to;
}

static size_t count_arrivals(const struct moments *all, size_t from, size_t to)
{
	size_t n = 0;

	for (size_t i = from + 1; i < to; i++)
		n += all->list[i].there && !all->list[i - 1].there;
	return n;
}

/* The moments of the thread that arrived most often. */
static void choose_thread(const struct moments *all, struct steps_seen *out, size_t *from, size_t *to)
{
	size_t most = 0;

	for (size_t at = 0, end; at < all->n; at = end) {
		size_t n = count_arrivals(all, at, end = end_of_thread(all, at));

		out->threads += n > 0;
		if (n > most) {
			most = n;
			*from = at;
			*to = end;
		}
	}
}

/* The time at each line of the function, by index of the profile's lines. */
static int64_t *times_of(const struct profile *profile, const struct steps_place *place, int64_t *all_ns)
{
	int64_t *ns = calloc(profile->n_lines + 1, sizeof(*ns));

	*all_ns = 0;
	for (size_t i = 0; ns && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		/* The outermost: of a function that calls itself the call that was made first. */
		for (size_t k = sample->n_lines; is_of_use(sample) && k-- > 0;) {
			if (steps_place__is_at(place, &profile->lines[sample->lines[k]])) {
				ns[sample->lines[k]] += sample->value_ns;
				*all_ns += sample->value_ns;
				break;
			}
		}
	}
	return ns;
}

/* How long a thread stays at the line, by the thread that came there most often. */
static int mean_stay(const struct profile *profile, const struct steps_place *place, int64_t ns, double *out)
{
	struct moments all = { .list = NULL };
	struct steps_seen seen = { .threads = 0 };
	size_t from = 0, to = 0;
	int ret = collect(profile, place, &all);

	if (!ret)
		choose_thread(&all, &seen, &from, &to);
	*out = !ret && to > from ? (double)ns / (double)count_arrivals(&all, from, to) : 0;
	free(all.list);
	return ret;
}

/*
 * Of the lines that have a good part of the function's time the one where a thread stays longest at a time: those of a
 * loop within the function are come to more often than once a call, and stay shorter.
 */
static int choose_line(const struct profile *profile, struct steps_place *place)
{
	struct steps_place at = *place;
	int64_t all_ns;
	_cleanup_free_ int64_t *ns = times_of(profile, place, &all_ns);
	size_t most = SIZE_MAX;
	double longest = 0;
	int ret = ns ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < profile->n_lines; i++) {
		double stay = 0;

		if (ns[i] && (most == SIZE_MAX || ns[i] > ns[most]))
			most = i;
		if (!ns[i] || ns[i] < all_ns / GOOD_PART)
			continue;
		at.python.line = (int)profile->lines[i].line;
		ret = mean_stay(profile, &at, ns[i], &stay);
		if (stay > longest) {
			longest = stay;
			place->python.line = at.python.line;
		}
	}
	if (!ret && !place->python.line && most != SIZE_MAX)
		place->python.line = (int)profile->lines[most].line;
	return ret;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int take_arrivals(const struct moments *all, size_t from, size_t to, int64_t period_ns, struct steps_seen *out)
{
	size_t n = count_arrivals(all, from, to), stay = 1;
	_cleanup_free_ int64_t *unsure = calloc(n + 1, sizeof(*unsure));

	out->begins = calloc(n + 1, sizeof(*out->begins));
	if (!out->begins || !unsure)
		return -ENOMEM;
	for (size_t i = from + 1; i < to; i++) {
		const struct moment *before = &all->list[i - 1], *now = &all->list[i];
		int64_t gap = now->begin - before->end;

		if (now->there == before->there) {
			stay++;
			continue;
		}
		/* The first stay began before the profile did. */
		out->n_brief += out->n_begins && stay == 1 && !before->waits;
		stay = 1;
		if (!now->there)
			continue;
		/* A wait that is reckoned to have begun before the thread last ran began soon after that. */
		unsure[out->n_begins] = gap > 0 ? gap / 2 : least(period_ns, now->end - before->end);
		out->begins[out->n_begins++] = before->end + (gap > 0 ? gap / 2 : 0);
	}
	qsort(unsure, out->n_begins, sizeof(*unsure), compare_ns);
	out->unsure_ns = out->n_begins ? unsure[out->n_begins / 2] : 0;
	out->pid = all->list[from].pid;
	out->tid = all->list[from].tid;
	return 0;
}

static void name_place(const struct steps_place *place, struct steps_seen *out)
{
	if (place->python.file[0])
		snprintf(out->where, sizeof(out->where), "%s:%d", place->python.file, place->python.line);
	else
		snprintf(out->where, sizeof(out->where), "%s", place->native);
}

int steps_seen__find(const struct profile *profile, const char *text, struct steps_seen *out, struct so_error *err)
{
	struct moments all = { .list = NULL };
	struct steps_place place;
	size_t from = 0, to = 0;
	int ret = steps_place__parse(text, &place, err);

	*out = (struct steps_seen){ .begins = NULL };
	if (ret)
		return ret;
	if (place.python.file[0] && !place.python.line)
		ret = choose_line(profile, &place);
	ret = ret ?: collect(profile, &place, &all);
	if (!ret && !all.n)
		ret = so_err(err, -ENODATA, "the profile has no times: record with --timeline");
	if (!ret) {
		choose_thread(&all, out, &from, &to);
		if (from == to)
			ret = so_err(err, -ENODATA,
				     "no sample shows a thread that comes to '%s': it must be where time goes", text);
	}
	ret = ret ?: take_arrivals(&all, from, to, profile->period_ns, out);
	name_place(&place, out);
	free(all.list);
	return ret == -ENOMEM ? so_err(err, ret, "out of memory") : ret;
}
