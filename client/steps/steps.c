// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/steps_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "profile/step_begins.h"
#include "client/steps/steps_seen.h"
#include "client/summary/own_line.h"
#include "stakeout/array.h"

#define LEAST_FIFTH 5 /* steps */
#define Z_95        1.96
#define ONE_SAMPLE  1.5 /* of what one stands for */

/* Steps. */

/* The comment of the thread with most steps; NULL: there is none. */
static const char *find_comment(const struct profile *profile, unsigned *threads)
{
	const char *best = NULL;

	*threads = 0;
	for (size_t i = 0; i < profile->n_comments; i++) {
		const char *text = step_begins__text(profile->comments[i]);

		if (!text)
			continue;
		++*threads;
		if (!best || step_begins__count(text) > step_begins__count(best))
			best = text;
	}
	return best;
}

static int read_begins(struct steps *s, const char *text)
{
	struct step_begins begins;
	int ret = step_begins__read(text, &begins);

	if (ret)
		return ret;
	s->pid = begins.pid;
	s->tid = begins.tid;
	s->begins = begins.ns;
	s->n = begins.n ? begins.n - 1 : 0;
	return 0;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static size_t clamp_rank(double rank, size_t n)
{
	return rank < 1 ? 0 : rank > (double)n ? n - 1 : (size_t)rank - 1;
}

static void fill_quantile(const struct steps *s, double q, struct steps_quantile *out)
{
	double n = (double)s->n, half = Z_95 * sqrt(n * q * (1 - q));

	out->q = q;
	out->ns = s->sorted[clamp_rank(ceil(n * q), s->n)];
	out->low_ns = s->sorted[clamp_rank(floor(n * q - half), s->n)];
	out->high_ns = s->sorted[clamp_rank(ceil(n * q + half) + 1, s->n)];
}

static int64_t median_of(const int64_t *ns, size_t n)
{
	_cleanup_free_ int64_t *copy = malloc(n * sizeof(*copy));

	if (!copy)
		return 0;
	memcpy(copy, ns, n * sizeof(*copy));
	qsort(copy, n, sizeof(*copy), compare_ns);
	return copy[n / 2];
}

static void fill_figures(struct steps *s)
{
	static const double quantiles[STEPS_QUANTILES] = { 0.5, 0.9, 0.95, 0.99 };
	size_t fifth = s->n / 5;

	for (size_t i = 0; i < STEPS_QUANTILES; i++)
		fill_quantile(s, quantiles[i], &s->quantiles[i]);
	s->bin_ns = (double)(s->quantiles[STEPS_QUANTILES - 1].ns - s->sorted[0]) / (STEPS_HISTOGRAM - 1);
	for (size_t i = 0; i < s->n; i++) {
		double bin = s->bin_ns > 0 ? (double)(s->ns[i] - s->sorted[0]) / s->bin_ns : 0;

		if (s->ns[i] <= s->quantiles[STEPS_QUANTILES - 1].ns && bin >= STEPS_HISTOGRAM - 1)
			bin = STEPS_HISTOGRAM - 2;
		s->histogram[bin >= STEPS_HISTOGRAM - 1 ? STEPS_HISTOGRAM - 1 : (size_t)bin]++;
	}
	if (fifth >= LEAST_FIFTH) {
		s->first_ns = median_of(s->ns, fifth);
		s->last_ns = median_of(s->ns + s->n - fifth, fifth);
	}
}

/* It may never end, as one that waits for another rank. */
static void add_current(struct steps *s)
{
	int64_t end = s->profile->duration_ns, begin = s->begins[s->n];

	s->n_all = s->n;
	if (end >= STEP_BEGINS_MOST_NS || end - begin <= s->sorted[s->n - 1])
		return;
	s->ns[s->n_all++] = end - begin;
	s->begins[s->n_all] = end;
}

static int measure(struct steps *s)
{
	s->ns = calloc(s->n + 1, sizeof(*s->ns));
	s->sorted = calloc(s->n, sizeof(*s->sorted));
	if (!s->ns || !s->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		s->ns[i] = s->begins[i + 1] - s->begins[i];
	memcpy(s->sorted, s->ns, s->n * sizeof(*s->sorted));
	qsort(s->sorted, s->n, sizeof(*s->sorted), compare_ns);
	fill_figures(s);
	add_current(s);
	return 0;
}

/* What was done in them. */

/* Of each thing that was done: in all typical steps together, and in each of the slow ones. */
struct sums {
	int64_t least_ns; /* less of it may be chance: of another thread, one sample */
	double typical;
	double slow[STEPS_COMPARED];
};

struct comparing {
	struct steps *s;
	struct sums *sums;
	size_t capacity;
	size_t n_typical;
	int64_t low_ns, high_ns; /* a typical step lasts between them: those in the middle half */
	uint8_t *slow_of;        /* of each step: its number among the slow ones, from 1; 0: it is none */
};

static void choose_slow(struct comparing *c)
{
	struct steps *s = c->s;

	for (size_t i = 0; i < s->n_all; i++)
		s->n_twice += s->ns[i] > 2 * s->quantiles[0].ns;
	while (s->n_slow < STEPS_COMPARED && s->n_slow < s->n_all) {
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < s->n_all; i++)
			if (!c->slow_of[i] && (best == SIZE_MAX || s->ns[i] > s->ns[best]))
				best = i;
		if (best == SIZE_MAX || (s->n_slow >= STEPS_SLOWEST && s->ns[best] <= 2 * s->quantiles[0].ns))
			return;
		s->slow[s->n_slow++] = (struct slow_step){ .number = best, .ns = s->ns[best] };
		c->slow_of[best] = (uint8_t)s->n_slow;
	}
}

/* The step in which that was; SIZE_MAX: before the first, or after the last. */
static size_t step_at(const struct steps *s, int64_t when)
{
	size_t low = 0, high = s->n_all;

	if (when < s->begins[0] || when >= s->begins[s->n_all])
		return SIZE_MAX;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->begins[middle] <= when)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void add_to_step(struct comparing *c, size_t step, uint32_t what, double ns)
{
	if (c->slow_of[step])
		c->sums[what].slow[c->slow_of[step] - 1] += ns;
	else if (c->s->ns[step] >= c->low_ns && c->s->ns[step] <= c->high_ns)
		c->sums[what].typical += ns;
}

static int what_of(struct comparing *c, const struct profile_sample *sample, uint32_t *what)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	const char *state = sample->state && *sample->state ? sample->state : "running";
	int ret = frame_text__between("", state, " in ", text);

	ret = ret ?: own_line__text(c->s->profile, sample, text);
	if (!ret && sample->tid != c->s->tid) {
		ret = frame_text__between(", in ", sample->thread && *sample->thread ? sample->thread : sample->comm,
					  "", text);
	}
	if (ret || ARRAY_RESERVE(c->sums, c->capacity, c->s->doings.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&c->s->doings, text->bytes, text->length, what);
	if (ret > 0)
		c->sums[*what] =
			(struct sums){ .least_ns = sample->tid == c->s->tid ? 0 : ONE_SAMPLE * sample->value_ns };
	return ret < 0 ? ret : 0;
}

/* The first step that the sample touches; SIZE_MAX: none. A sample of one that ran is of a moment, all else lasted. */
static size_t first_step(const struct steps *s, const struct profile_sample *sample, int64_t *end)
{
	int64_t begin = sample->time_ns;

	*end = begin + (profile_sample__is_moment(sample) ? 1 : sample->value_ns);
	return *end <= s->begins[0] ? SIZE_MAX : step_at(s, begin < s->begins[0] ? s->begins[0] : begin);
}

bool steps__takes(const struct steps *s, const struct profile_sample *sample)
{
	return sample->time_ns && sample->time_ns < STEP_BEGINS_MOST_NS && sample->value_ns < STEP_BEGINS_MOST_NS &&
	       sample->pid == s->pid && !(sample->state && !strcmp(sample->state, "idle"));
}

void steps__divide(const struct steps *s, const struct profile_sample *sample, steps_take *take, void *context)
{
	int64_t begin = sample->time_ns, end;
	size_t step = first_step(s, sample, &end);

	if (step != SIZE_MAX && profile_sample__is_moment(sample)) {
		take(context, step, (double)sample->value_ns, true);
		return;
	}
	for (; step < s->n_all && s->begins[step] < end; step++) {
		int64_t from = begin > s->begins[step] ? begin : s->begins[step],
			to = end < s->begins[step + 1] ? end : s->begins[step + 1];

		if (to > from)
			take(context, step, (double)(to - from), false);
	}
}

struct adding {
	struct comparing *comparing;
	uint32_t what;
};

static void add_to_sums(void *context, size_t step, double ns, bool ran)
{
	struct adding *a = context;

	add_to_step(a->comparing, step, a->what, ns);
}

static int add_sample(struct comparing *c, const struct profile_sample *sample)
{
	struct adding adding = { .comparing = c };
	int64_t end;
	int ret;

	/* That another thread waits, it does for longer in any longer step. */
	if (first_step(c->s, sample, &end) == SIZE_MAX ||
	    (!profile_sample__is_moment(sample) && sample->tid != c->s->tid))
		return 0;
	ret = what_of(c, sample, &adding.what);
	if (!ret)
		steps__divide(c->s, sample, add_to_sums, &adding);
	return ret;
}

static void insert(struct slow_step *slow, uint32_t what, double ns)
{
	size_t at = slow->n_more;

	while (at > 0 && slow->more[at - 1].ns < ns)
		at--;
	if (at == STEPS_DOINGS)
		return;
	if (slow->n_more < STEPS_DOINGS)
		slow->n_more++;
	for (size_t i = slow->n_more - 1; i > at; i--)
		slow->more[i] = slow->more[i - 1];
	slow->more[at] = (struct step_doing){ what, ns };
}

/* A tenth of what the step took too long is worth to be told. */
static void tell_differences(struct comparing *c)
{
	struct steps *s = c->s;

	for (size_t i = 0; i < s->n_slow; i++) {
		double extra = (double)(s->slow[i].ns - s->quantiles[0].ns);

		for (uint32_t what = 0; what < s->doings.n_keys; what++) {
			double typical = c->n_typical ? c->sums[what].typical / (double)c->n_typical : 0;
			double more = c->sums[what].slow[i] - typical;

			if (more > extra / 10 && more > (double)c->sums[what].least_ns)
				insert(&s->slow[i], what, more);
		}
	}
}

static int compare_steps(struct steps *s)
{
	struct comparing c = { .s = s, .low_ns = s->sorted[s->n / 4], .high_ns = s->sorted[s->n * 3 / 4] };
	int ret = 0;

	c.slow_of = calloc(s->n_all + 1, 1);
	if (!c.slow_of)
		return -ENOMEM;
	choose_slow(&c);
	for (size_t i = 0; i < s->n; i++)
		c.n_typical += !c.slow_of[i] && s->ns[i] >= c.low_ns && s->ns[i] <= c.high_ns;
	for (size_t i = 0; !ret && i < s->profile->n_samples; i++) {
		if (steps__takes(s, &s->profile->samples[i]))
			ret = add_sample(&c, &s->profile->samples[i]);
	}
	if (!ret)
		tell_differences(&c);
	free(c.slow_of);
	free(c.sums);
	return ret;
}

size_t steps__causes(const struct steps *s, struct step_cause out[STEPS_CAUSES])
{
	_cleanup_free_ struct step_cause *all = calloc(s->doings.n_keys + 1, sizeof(*all));
	size_t n = 0;

	for (size_t i = 0; all && i < s->n_slow && s->slow[i].ns > 2 * s->quantiles[0].ns; i++) {
		uint32_t what = s->slow[i].n_more ? s->slow[i].more[0].what : s->doings.n_keys;

		all[what].steps++;
		all[what].lost_ns += (double)(s->slow[i].ns - s->quantiles[0].ns);
	}
	while (all && n < STEPS_CAUSES) {
		size_t best = 0;

		for (size_t i = 1; i <= s->doings.n_keys; i++)
			if (all[i].lost_ns > all[best].lost_ns)
				best = i;
		if (!all[best].steps)
			break;
		out[n] = all[best];
		out[n++].what = best == s->doings.n_keys ? UINT32_MAX : (uint32_t)best;
		all[best] = (struct step_cause){ 0 };
	}
	return n;
}

static int find_told(struct steps *s, struct so_error *err)
{
	const char *text = find_comment(s->profile, &s->threads);
	int ret;

	if (!text)
		return so_err(err, -ENODATA,
			      "there are no steps in it: the function was not called, or the profile has no times "
			      "(stakeout steps -p PID --step FUNCTION)");
	ret = read_begins(s, text);
	return ret == -EINVAL ? so_err(err, ret, "damaged profile: its steps cannot be read") : ret;
}

static int find_seen(struct steps *s, const char *place, struct so_error *err)
{
	struct steps_seen seen;
	int ret = steps_seen__find(s->profile, place, &seen, err);

	if (ret) {
		free(seen.begins);
		return ret;
	}
	s->seen = true;
	s->pid = seen.pid;
	s->tid = seen.tid;
	s->threads = seen.threads;
	s->begins = seen.begins;
	s->n = seen.n_begins ? seen.n_begins - 1 : 0;
	s->n_brief = seen.n_brief;
	s->unsure_ns = seen.unsure_ns;
	snprintf(s->where, sizeof(s->where), "%s", seen.where);
	return 0;
}

int steps__of(const struct profile *profile, const char *place, struct steps **out, struct so_error *err)
{
	_cleanup_(steps) struct steps *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return so_err(err, -ENOMEM, "out of memory");
	s->profile = profile;
	ret = place ? find_seen(s, place, err) : find_told(s, err);
	if (ret && ret != -ENOMEM)
		return ret;
	if (!ret && s->n < 2)
		return so_err(err, -ENODATA, "less than two steps were seen whole: look for longer (-d)");
	ret = ret ?: measure(s) ?: compare_steps(s);
	if (ret)
		return so_err(err, ret, "out of memory");
	*out = TAKE_PTR(s);
	return 0;
}

void steps__free(struct steps *s)
{
	if (!s)
		return;
	intern__clear(&s->doings);
	free(s->begins);
	free(s->ns);
	free(s->sorted);
	free(s);
}
