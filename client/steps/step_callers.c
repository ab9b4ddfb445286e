// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/step_callers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/steps/step_numbers.h"
#include "client/steps/steps_internal.h"
#include "client/steps/steps_seen.h"
#include "client/summary/summary_parts.h"
#include "stakeout/array.h"

struct caller {
	uint32_t name; /* of names */
	size_t arrivals;
	double ns;
	double ran_ns; /* of it running: what has an interval */
};

struct step_callers {
	const struct steps *steps;
	char where[512];
	struct intern names;
	struct caller *list; /* by name, then the one with most time first */
	size_t n;
	size_t arrivals;
	double ns;
};

/* A sample in the function, or not: UINT32_MAX. */
struct visit {
	int64_t tid, when;
	uint32_t caller;
	double ns;
	bool ran;
};

/* The next frame outwards; of a Python function the next one of Python, the interpreter's own left out. */
static const struct profile_line *caller_of(const struct profile *profile, const struct profile_sample *sample,
					    size_t at)
{
	bool python = profile->lines[sample->lines[at]].python;

	for (size_t i = at + 1; i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (!python || line->python)
			return line;
	}
	return NULL;
}

static int name_caller(struct step_callers *c, const struct profile_line *line, uint32_t *number)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	int ret = line ? line->python ? frame_text__folded(line, false, text) : frame_text__line(line, text)
		       : frame_text__words("nothing: it is the outermost", text);

	ret = ret ?: intern__add(&c->names, text->bytes, text->length, number);
	return ret < 0 ? ret : 0;
}

static int take_visit(struct step_callers *c, const struct steps_place *place, const struct profile_sample *sample,
		      struct visit *out)
{
	const struct profile *profile = c->steps->profile;

	*out = (struct visit){ .tid = sample->tid,
			       .when = sample->time_ns,
			       .caller = UINT32_MAX,
			       .ns = (double)sample->value_ns,
			       .ran = profile_sample__is_moment(sample) };
	for (size_t i = 0; i < sample->n_lines; i++)
		if (steps_place__is_at(place, &profile->lines[sample->lines[i]]))
			return name_caller(c, caller_of(profile, sample, i), &out->caller);
	return 0;
}

static int compare_visits(const void *a, const void *b)
{
	const struct visit *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->when > y->when) - (x->when < y->when);
}

static int compare_callers(const void *a, const void *b)
{
	const struct caller *x = a, *y = b;

	return (x->ns < y->ns) - (x->ns > y->ns);
}

static int add_up(struct step_callers *c, const struct visit *visits, size_t n)
{
	c->n = c->names.n_keys;
	c->list = calloc(c->n + 1, sizeof(*c->list));
	if (!c->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct visit *v = &visits[i];
		struct caller *caller = &c->list[v->caller == UINT32_MAX ? c->n : v->caller];
		bool arrival = !i || visits[i - 1].tid != v->tid || visits[i - 1].caller != v->caller;

		if (v->caller == UINT32_MAX)
			continue;
		caller->name = v->caller;
		caller->arrivals += arrival;
		caller->ns += v->ns;
		caller->ran_ns += v->ran ? v->ns : 0;
		c->arrivals += arrival;
		c->ns += v->ns;
	}
	qsort(c->list, c->n, sizeof(*c->list), compare_callers);
	return 0;
}

/*
 * In the whole steps, by which arrivals are divided. Of a thread that could have run it is not known where it was: the
 * state is that of a part of the time between two looks.
 */
static bool is_in_steps(const struct steps *s, const struct profile_sample *sample)
{
	return steps__takes(s, sample) && sample->time_ns >= s->begins[0] && sample->time_ns < s->begins[s->n] &&
	       (!sample->state || strcmp(sample->state, "runnable") != 0);
}

static int measure(struct step_callers *c, const struct steps_place *place)
{
	const struct profile *profile = c->steps->profile;
	_cleanup_free_ struct visit *visits = calloc(profile->n_samples + 1, sizeof(*visits));
	size_t n = 0;
	int ret = visits ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		if (is_in_steps(c->steps, &profile->samples[i]))
			ret = take_visit(c, place, &profile->samples[i], &visits[n++]);
	if (!ret && n)
		qsort(visits, n, sizeof(*visits), compare_visits);
	return ret ?: add_up(c, visits, n);
}

int step_callers__of(const struct steps *steps, const char *text, struct step_callers **out, struct so_error *err)
{
	_cleanup_(step_callers) struct step_callers *c = calloc(1, sizeof(*c));
	struct steps_place place;
	int ret = c ? steps_place__parse(text, &place, err) : so_err(err, -ENOMEM, "out of memory");

	if (ret)
		return ret;
	c->steps = steps;
	snprintf(c->where, sizeof(c->where), "%s", text);
	if (measure(c, &place))
		return so_err(err, -ENOMEM, "out of memory");
	if (!c->n)
		return so_err(err, -ENODATA, "no sample shows '%s': it must be where time goes", text);
	*out = TAKE_PTR(c);
	return 0;
}

void step_callers__free(struct step_callers *c)
{
	if (!c)
		return;
	intern__clear(&c->names);
	free(c->list);
	free(c);
}

/* Samples are few of many: their number varies as its root. Waits are measured. */
static double interval_of(const struct step_callers *c, const struct caller *caller)
{
	double period = (double)c->steps->profile->period_ns, part = c->ns > 0 ? caller->ns / c->ns : 0;

	return c->ns > 0 ? STEP_NUMBERS_Z_95 * sqrt(caller->ran_ns * period * (1 - part)) / c->ns : 0;
}

void step_callers__print(const struct step_callers *c, FILE *out)
{
	double steps = (double)c->steps->n;

	fprintf(out, "\nWho calls ");
	summary__print_name(c->where, strlen(c->where), out);
	fprintf(out,
		", by samples: %zu arrivals were seen, of calls in a row from one caller the first\n"
		"   share  [95 %% interval] arrivals     a step  caller\n",
		c->arrivals);
	for (size_t i = 0; i < c->n; i++) {
		const struct caller *caller = &c->list[i];

		fprintf(out, " %5.1f %%  +- %-12.1f %8zu %10.3f  ", c->ns > 0 ? 100 * caller->ns / c->ns : 0,
			100 * interval_of(c, caller), caller->arrivals, (double)caller->arrivals / steps);
		summary__print_name((const char *)intern__key(&c->names, caller->name),
				    intern__length(&c->names, caller->name), out);
		fputc('\n', out);
	}
}

json_t *step_callers__json(const struct step_callers *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->n; i++) {
		const struct caller *caller = &c->list[i];

		json_array_append_new(list, json_pack("{s:o, s:I, s:f, s:f, s:f}", "caller",
						      json_stringn(intern__key(&c->names, caller->name),
								   intern__length(&c->names, caller->name)),
						      "arrivals", (json_int_t)caller->arrivals, "a_step",
						      (double)caller->arrivals / (double)c->steps->n, "share",
						      c->ns > 0 ? caller->ns / c->ns : 0, "interval",
						      interval_of(c, caller)));
	}
	return json_pack("{s:s, s:I, s:f, s:o}", "where", c->where, "arrivals", (json_int_t)c->arrivals, "ns", c->ns,
			 "callers", list);
}
