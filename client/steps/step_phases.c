// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/step_phases.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "client/steps/steps_internal.h"
#include "client/summary/summary_parts.h"
#include "cuda/cuda_text.h"

#define Z_95          1.96
#define LEAST_SAMPLES 3 /* of a phase in a step, for a quantile of single steps */

struct measuring {
	const struct steps *steps;
	const bool *matches;
	double *by_step;
	double ran, ns; /* of all whole steps: running, and in all */
};

static bool is_in_phase(const struct measuring *m, const struct profile_sample *sample)
{
	for (size_t i = 0; i < sample->n_lines; i++)
		if (m->matches[sample->lines[i]])
			return true;
	return false;
}

static void take(void *context, size_t step, double ns, bool ran)
{
	struct measuring *m = context;

	if (step >= m->steps->n)
		return;
	m->by_step[step] += ns;
	m->ns += ns;
	m->ran += ran ? ns : 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void fill(struct measuring *m, struct step_phase *out)
{
	const struct steps *s = m->steps;
	double n = (double)s->n, period = (double)s->profile->period_ns, all = (double)(s->begins[s->n] - s->begins[0]);

	out->ns = m->ns / n;
	/* Samples are few of many: their number varies as its root. Waits are measured. */
	out->interval_ns = Z_95 * sqrt(m->ran * period) / n;
	out->share = all > 0 ? m->ns / all : 0;
	qsort(m->by_step, s->n, sizeof(*m->by_step), compare);
	out->p99_ns = m->by_step[(size_t)ceil(n * 0.99) - 1];
	if (m->ran > 0.1 * m->ns && m->ran / n < LEAST_SAMPLES * period)
		out->p99_ns = -1;
}

int step_phases__measure(const struct steps *s, const struct phases *phases, struct step_phase *out)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < phases__count(phases); i++) {
		_cleanup_free_ bool *matches = phases__lines(phases, i, s->profile);
		_cleanup_free_ double *by_step = calloc(s->n + 1, sizeof(*by_step));
		struct measuring m = { .steps = s, .matches = matches, .by_step = by_step };

		if (!matches || !by_step)
			return -ENOMEM;
		out[i] = (struct step_phase){ .name = phases__name(phases, i), .pattern = phases__pattern(phases, i) };
		for (size_t k = 0; k < s->profile->n_samples; k++) {
			const struct profile_sample *sample = &s->profile->samples[k];

			if (sample->tid == s->tid && steps__takes(s, sample) && is_in_phase(&m, sample))
				steps__divide(s, sample, take, &m);
		}
		fill(&m, &out[i]);
	}
	return ret;
}

int step_phases__print(const struct steps *s, const struct phases *phases, FILE *out)
{
	struct step_phase list[PHASES_MAX];
	char text[3][CUDA_TEXT_BYTES];
	int ret = step_phases__measure(s, phases, list);

	if (ret || !phases__count(phases))
		return ret;
	fprintf(out, "\nWhat a step spends in each phase, in its own thread\n"
		     "   share     a step  [95 %% interval]              p99  phase=pattern\n");
	for (size_t i = 0; !ret && i < phases__count(phases); i++) {
		const struct step_phase *p = &list[i];

		cuda_text__time(p->ns, text[0]);
		cuda_text__time(p->interval_ns, text[1]);
		if (p->p99_ns >= 0)
			cuda_text__time(p->p99_ns, text[2]);
		fprintf(out, " %5.1f %%  %9s  +- %-18s  %9s  %s=", 100 * p->share, text[0], text[1],
			p->p99_ns < 0 ? "-" : text[2], p->name);
		ret = summary__print_foreign(p->pattern, out);
		fputc('\n', out);
	}
	return ret;
}

json_t *step_phases__json(const struct steps *s, const struct phases *phases)
{
	struct step_phase list[PHASES_MAX];
	json_t *all = step_phases__measure(s, phases, list) ? NULL : json_array();

	for (size_t i = 0; all && i < phases__count(phases); i++) {
		const struct step_phase *p = &list[i];

		json_array_append_new(all, json_pack("{s:s, s:s, s:f, s:f, s:f, s:o}", "name", p->name, "pattern",
						     p->pattern, "ns", p->ns, "interval_ns", p->interval_ns, "share",
						     p->share, "p99_ns",
						     p->p99_ns < 0 ? json_null() : json_real(p->p99_ns)));
	}
	return all;
}
