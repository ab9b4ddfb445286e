// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * For whom threads waited that wanted the GIL. Each wait is divided among the samples of threads that had the GIL
 * during it, in proportion to the time that these are scaled to. So what is attributed to all lines together is the
 * time that was waited, less waits during which no sample shows a holder, even where a busy machine lets the polls of
 * the waiting threads and the samples of the running ones be unequally far apart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/summary/summary_wall_internal.h"

#define POINTS 16 /* that the time is divided into for which a thread was seen to have the GIL */

/* Of a process's time line, in the order of process and time. */
struct moment {
	int64_t pid, when; /* nanoseconds */
	double amount;     /* this one's, then the sum of all up to this one */
};

struct moments {
	struct moment *all;
	size_t n;
};

struct gil_times {
	struct moments held;         /* ns that a sample of a holder is scaled to */
	struct moments begins, ends; /* of waits: ns waited per ns held during it */
};

static int compare_moments(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->when > y->when) - (x->when < y->when);
}

static void add_up(struct moments *m)
{
	double sum = 0;

	qsort(m->all, m->n, sizeof(*m->all), compare_moments);
	for (size_t i = 0; i < m->n; i++)
		m->all[i].amount = sum += m->all[i].amount;
}

/* The sum of what is not later. */
static double sum_until(const struct moments *m, int64_t pid, int64_t when)
{
	const struct moment last = { .pid = pid, .when = when };
	size_t low = 0, high = m->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_moments(&m->all[middle], &last) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? m->all[low - 1].amount : 0;
}

static unsigned points_of(const struct profile_sample *sample)
{
	return profile_sample__is_moment(sample) ? 1 : POINTS;
}

static struct moment point_of(const struct profile_sample *sample, double ns, unsigned i)
{
	unsigned n = points_of(sample);
	int64_t after = n == 1 ? 0 : (int64_t)(ns * (i + 0.5) / n);

	return (struct moment){ sample->pid, sample->time_ns + after, ns / n };
}

static bool holds(const struct profile_sample *sample)
{
	return sample->time_ns && sample->gil == PROFILE_GIL_HELD;
}

static int find_holders(const struct summary_wall *w, struct moments *held)
{
	const struct profile *profile = w->scope->profile;
	struct share share;
	size_t room = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		if (holds(&profile->samples[i]))
			room += points_of(&profile->samples[i]);
	held->all = calloc(room + 1, sizeof(*held->all));
	if (!held->all)
		return -1;
	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		if (!holds(sample) || !scope__share_any(w->scope, sample, &share))
			continue;
		for (unsigned k = 0; k < points_of(sample); k++)
			held->all[held->n++] = point_of(sample, share.ns, k);
	}
	add_up(held);
	return 0;
}

static int find_waits(const struct summary_wall *w, struct gil_times *times)
{
	const struct profile *profile = w->scope->profile;
	struct share share;
	size_t n = 0;

	times->begins.all = calloc(profile->n_samples + 1, sizeof(*times->begins.all));
	times->ends.all = calloc(profile->n_samples + 1, sizeof(*times->ends.all));
	if (!times->begins.all || !times->ends.all)
		return -1;
	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		int64_t begin = sample->time_ns, end;
		double held;

		if (!begin || strcmp(sample->state, "gil") || !scope__share_any(w->scope, sample, &share))
			continue;
		end = begin + (int64_t)share.ns;
		held = sum_until(&times->held, sample->pid, end) - sum_until(&times->held, sample->pid, begin);
		if (!(held > 0))
			continue;
		times->begins.all[n] = (struct moment){ sample->pid, begin, share.ns / held };
		times->ends.all[n++] = (struct moment){ sample->pid, end, share.ns / held };
	}
	times->begins.n = times->ends.n = n;
	add_up(&times->begins);
	add_up(&times->ends);
	return 0;
}

/* What others waited during this sample of a holder, ns. */
static double waited_ns(const struct gil_times *times, const struct profile_sample *sample, double ns)
{
	double sum = 0;

	for (unsigned i = 0; i < points_of(sample); i++) {
		struct moment at = point_of(sample, ns, i);
		double waits = sum_until(&times->begins, at.pid, at.when) - sum_until(&times->ends, at.pid, at.when);

		/* A difference of sums: nobody waits where it is nothing but rounding. */
		if (waits > 1e-9)
			sum += at.amount * waits;
	}
	return sum;
}

static int attribute(struct summary_wall *w, const struct gil_times *times)
{
	const struct profile *profile = w->scope->profile;
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		struct share share;
		uint32_t line;

		if (!holds(sample) || !scope__share_any(w->scope, sample, &share))
			continue;
		w->timed = true;
		share.ns = waited_ns(times, sample, share.ns);
		ret = summary_wall__line(w, sample, &line);
		if (ret >= 0)
			ret = sums__add(&w->blocking, &line, 1, &share);
	}
	return ret;
}

int summary_gil__attribute(struct summary_wall *w)
{
	struct gil_times times = { .held = { .n = 0 } };
	int ret = find_holders(w, &times.held) || find_waits(w, &times) ? -ENOMEM : attribute(w, &times);

	free(times.held.all);
	free(times.begins.all);
	free(times.ends.all);
	return ret < 0 ? ret : 0;
}
