// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/steps_counted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/steps/step_numbers.h"
#include "client/steps/steps_internal.h"
#include "client/summary/summary_parts.h"
#include "profile/step_begins.h"
#include "stakeout/array.h"

/* One function, in the whole steps. */
struct counted {
	const char *name;
	size_t calls;
	double a_second;
	struct step_mean a_step;
	size_t p50, p99, most; /* calls in one step */
};

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int add_entries(const struct steps *s, const char *text, struct steps_entries *out, size_t *capacity)
{
	_cleanup_(step_begins) struct step_begins *begins = &(struct step_begins){ .ns = NULL };
	int ret = step_begins__read(text, begins);

	if (ret || begins->pid != s->pid)
		return ret == -ENOMEM ? ret : 0;
	if (ARRAY_RESERVE(out->ns, *capacity, out->n + begins->n + 1))
		return -ENOMEM;
	memcpy(out->ns + out->n, begins->ns, begins->n * sizeof(*out->ns));
	out->n += begins->n;
	return 0;
}

int steps_counted__find(const struct steps *s, const char *name, struct steps_entries *out)
{
	const struct profile *profile = s->profile;
	size_t capacity = 0;
	bool counted = false;
	int ret = 0;

	*out = (struct steps_entries){ .n = 0 };
	for (size_t i = 0; !ret && i < profile->n_comments; i++) {
		const char *here = step_begins__counted(profile->comments[i]), *of = "";
		const char *text = step_begins__entries(profile->comments[i], &of);

		counted |= here && !strcmp(here, name);
		if (text && !strcmp(of, name))
			ret = add_entries(s, text, out, &capacity);
	}
	if (!ret && !counted)
		ret = -ENOENT;
	if (ret) {
		free(out->ns);
		return ret;
	}
	if (out->n)
		qsort(out->ns, out->n, sizeof(*out->ns), compare_ns);
	return 0;
}

/* by_step: of s->n whole steps. */
static void fill(const struct steps *s, size_t *by_step, struct counted *out)
{
	double span_s = (double)(s->begins[s->n] - s->begins[0]) / 1e9;

	for (size_t i = 0; i < s->n; i++)
		out->calls += by_step[i];
	out->a_second = span_s > 0 ? (double)out->calls / span_s : 0;
	out->a_step = step_numbers__mean(by_step, s->n);
	step_numbers__sort(by_step, s->n);
	out->p50 = step_numbers__quantile(by_step, s->n, 0.5);
	out->p99 = step_numbers__quantile(by_step, s->n, 0.99);
	out->most = by_step[s->n - 1];
}

static int measure(const struct steps *s, const char *name, struct counted *out)
{
	struct steps_entries entries;
	size_t *by_step = calloc(s->n + 1, sizeof(*by_step)), step = 0;
	int ret = by_step ? steps_counted__find(s, name, &entries) : -ENOMEM;

	*out = (struct counted){ .name = name };
	if (!ret) {
		for (size_t i = 0; i < entries.n; i++) {
			while (step < s->n && s->begins[step + 1] <= entries.ns[i])
				step++;
			if (step < s->n && entries.ns[i] >= s->begins[0])
				by_step[step]++;
		}
		fill(s, by_step, out);
		free(entries.ns);
	}
	free(by_step);
	return ret;
}

/* *list: the caller's, of *n; *calls: of all. */
static int measure_all(const struct steps *s, struct counted **list, size_t *n, size_t *calls)
{
	const struct profile *profile = s->profile;
	struct counted *all = calloc(profile->n_comments + 1, sizeof(*all));
	int ret = all ? 0 : -ENOMEM;

	*n = *calls = 0;
	for (size_t i = 0; !ret && i < profile->n_comments; i++) {
		const char *name = step_begins__counted(profile->comments[i]);

		if (!name)
			continue;
		ret = measure(s, name, &all[*n]);
		*calls += all[(*n)++].calls;
	}
	if (ret)
		free(all);
	else
		*list = all;
	return ret;
}

int steps_counted__print(const struct steps *s, FILE *out)
{
	const char *lost = profile__comment(s->profile, "entries_lost");
	_cleanup_free_ struct counted *list = NULL;
	size_t n, calls;
	int ret = measure_all(s, &list, &n, &calls);

	if (ret || !n)
		return ret;
	fprintf(out, "\nCalls of other functions, each counted, in whole steps\n"
		     "   share   a second     a step  [95 %% interval]    p50    p99    max  function\n");
	for (size_t i = 0; !ret && i < n; i++) {
		const struct counted *c = &list[i];

		fprintf(out, " %5.1f %% %10.1f %10.3f  +- %-12.3f %6zu %6zu %6zu  ",
			calls ? 100 * (double)c->calls / (double)calls : 0, c->a_second, c->a_step.mean,
			c->a_step.interval, c->p50, c->p99, c->most);
		ret = summary__print_foreign(c->name, out);
		fputc('\n', out);
	}
	if (lost)
		fprintf(out, "%s more calls of them came too fast to be told: their numbers are larger\n", lost);
	return ret;
}

json_t *steps_counted__json(const struct steps *s)
{
	_cleanup_free_ struct counted *list = NULL;
	size_t n, calls;
	json_t *all = measure_all(s, &list, &n, &calls) ? NULL : json_array();

	for (size_t i = 0; all && i < n; i++) {
		const struct counted *c = &list[i];

		json_array_append_new(all, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "name", c->name,
						     "calls", (json_int_t)c->calls, "share",
						     calls ? (double)c->calls / (double)calls : 0, "a_second",
						     c->a_second, "a_step", c->a_step.mean, "interval",
						     c->a_step.interval, "p50", (json_int_t)c->p50, "p99",
						     (json_int_t)c->p99, "max", (json_int_t)c->most));
	}
	return all;
}
