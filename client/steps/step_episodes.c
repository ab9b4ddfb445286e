// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/step_episodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/steps/steps_counted.h"
#include "client/steps/steps_internal.h"
#include "client/summary/summary_parts.h"
#include "cuda/cuda_text.h"
#include "stakeout/array.h"

#define BAR 40

/* Steps that begin before then. */
static size_t count_before(const struct steps *s, int64_t when)
{
	return ARRAY_BEFORE(i, s->n + 1, s->begins[i] < when);
}

/* Of those whose steps were all seen. */
static void fill_lengths(const struct steps *s, struct step_episodes *e)
{
	for (size_t i = 1; i < e->resets.n_begins; i++) {
		if (e->resets.begins[i - 1] < s->begins[0] || e->resets.begins[i] > s->begins[s->n])
			continue;
		e->lengths[e->n++] = count_before(s, e->resets.begins[i]) - count_before(s, e->resets.begins[i - 1]);
	}
	step_numbers__sort(e->lengths, e->n);
}

static void fill_figures(struct step_episodes *e)
{
	e->bar = e->lengths[e->n - 1] / STEP_EPISODES_BARS + 1;
	for (size_t i = 0; i < e->n; i++)
		e->histogram[e->lengths[i] / e->bar]++;
	e->steps = step_numbers__mean(e->lengths, e->n);
}

static int find_resets(const struct steps *s, const char *place, struct step_episodes *e, struct so_error *err)
{
	struct steps_entries entries;
	int ret = steps_counted__find(s, place, &entries);

	if (ret == -ENOENT)
		return steps_seen__find(s->profile, place, &e->resets, err);
	if (ret)
		return so_err(err, ret, "out of memory");
	e->exact = true;
	e->resets = (struct steps_seen){ .begins = entries.ns, .n_begins = entries.n };
	snprintf(e->resets.where, sizeof(e->resets.where), "%s", place);
	return 0;
}

int step_episodes__measure(const struct steps *s, const char *place, struct step_episodes *e, struct so_error *err)
{
	int ret;

	*e = (struct step_episodes){ .n = 0 };
	ret = find_resets(s, place, e, err);
	if (ret)
		return ret;
	e->lengths = calloc(e->resets.n_begins + 1, sizeof(*e->lengths));
	if (!e->lengths)
		return so_err(err, -ENOMEM, "out of memory");
	fill_lengths(s, e);
	if (!e->n)
		return so_err(err, -ENODATA,
			      "no whole episode was seen: '%s' was come to less than twice, look for longer (-d)",
			      place);
	fill_figures(e);
	return 0;
}

void step_episodes__clear(struct step_episodes *e)
{
	free(e->resets.begins);
	free(e->lengths);
	*e = (struct step_episodes){ .n = 0 };
}

static size_t quantile(const struct step_episodes *e, double q)
{
	return step_numbers__quantile(e->lengths, e->n, q);
}

void step_episodes__print(const struct step_episodes *e, FILE *out)
{
	char text[CUDA_TEXT_BYTES];
	size_t most = 1;

	cuda_text__time((double)e->resets.unsure_ns, text);
	fprintf(out, "\nSteps in an episode: %zu whole, from one %s ", e->n, e->exact ? "call of" : "arrival at");
	summary__print_name(e->resets.where, strlen(e->resets.where), out);
	if (e->exact)
		fputs(" to the next, each counted\n", out);
	else
		fprintf(out, " to the next, by samples, within %s\n", text);
	if (e->resets.n_brief > e->n * STEPS_SEEN_BRIEF)
		fprintf(out, "%zu stays there, or elsewhere, were seen by one sample alone, so some are two in one\n",
			e->resets.n_brief);
	fprintf(out, "mean %.1f +- %.1f, p10 %zu, p50 %zu, p90 %zu, from %zu to %zu\n", e->steps.mean,
		e->steps.interval, quantile(e, 0.1), quantile(e, 0.5), quantile(e, 0.9), e->lengths[0],
		e->lengths[e->n - 1]);
	for (size_t i = 0; i < STEP_EPISODES_BARS; i++)
		most = e->histogram[i] > most ? e->histogram[i] : most;
	for (size_t i = 0; i < STEP_EPISODES_BARS; i++) {
		fprintf(out, "  from %-9zu%8zu ", i * e->bar, e->histogram[i]);
		for (size_t n = (e->histogram[i] * BAR + most - 1) / most; n > 0; n--)
			fputc('#', out);
		fputc('\n', out);
	}
}

json_t *step_episodes__json(const struct step_episodes *e)
{
	json_t *lengths = json_array();

	for (size_t i = 0; i < e->n; i++)
		json_array_append_new(lengths, json_integer((json_int_t)e->lengths[i]));
	return json_pack("{s:s, s:b, s:I, s:I, s:f, s:f, s:o}", "where", e->resets.where, "exact", e->exact,
			 "within_ns", (json_int_t)e->resets.unsure_ns, "brief_stays", (json_int_t)e->resets.n_brief,
			 "mean", e->steps.mean, "interval", e->steps.interval, "lengths", lengths);
}
