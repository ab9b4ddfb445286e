// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/steps/steps_internal.h"
#include "client/steps/steps_seen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/summary/summary_parts.h"
#include "cuda/cuda_text.h"

#define BAR 40

static const char *time_text(double ns, char text[CUDA_TEXT_BYTES])
{
	cuda_text__time(ns, text);
	return text;
}

static double median_ns(const struct steps *s)
{
	return (double)s->quantiles[0].ns;
}

/* One that is under way at the end took at least that long. */
static bool is_whole(const struct steps *s, const struct slow_step *slow)
{
	return slow->number < s->n;
}

/* "largest: step 350 took 64.1 ms, 16.0 × the median: 60.0 ms sleep in slow_read (loop.c:8)" */
static void print_verdict(const struct steps *s, FILE *out)
{
	const struct slow_step *slow = &s->slow[0];
	char text[CUDA_TEXT_BYTES], more[CUDA_TEXT_BYTES];

	fprintf(out, "slowest: step %zu %s %s, %.1f × the median", slow->number,
		is_whole(s, slow) ? "took" : "was under way at the end, for", time_text((double)slow->ns, text),
		median_ns(s) > 0 ? (double)slow->ns / median_ns(s) : 0);
	if (slow->n_more) {
		fprintf(out, ": %s more ", time_text(slow->more[0].ns, more));
		summary__print_name(intern__key(&s->doings, slow->more[0].what),
				    intern__length(&s->doings, slow->more[0].what), out);
	}
	fputc('\n', out);
}

/* By samples the count is no better than they are. */
static void print_seen(const struct steps *s, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	fputs("by samples: each arrival at ", out);
	summary__print_name(s->where, strlen(s->where), out);
	fprintf(out, ", within %s\n", time_text((double)s->unsure_ns, text));
	if (s->n_brief > s->n * STEPS_SEEN_BRIEF)
		fprintf(out,
			"%zu stays there, or elsewhere, were seen by one sample alone, so steps are missing: take a "
			"line "
			"where more time goes, or a higher rate (-r)\n",
			s->n_brief);
}

static void print_head(const struct steps *s, FILE *out)
{
	double seconds = (double)(s->begins[s->n] - s->begins[0]) / 1e9;
	const char *lost = profile__comment(s->profile, "steps_lost");

	fprintf(out, "%zu steps in %.1f s, %.2f a second, of thread %" PRId64 "/%" PRId64, s->n, seconds,
		seconds > 0 ? (double)s->n / seconds : 0, s->pid, s->tid);
	if (s->threads > 1)
		fprintf(out, "; %u more thread%s steps as well", s->threads - 1, s->threads == 2 ? " has" : "s have");
	fputc('\n', out);
	if (s->seen)
		print_seen(s, out);
	if (lost && !s->seen)
		fprintf(out,
			"%s more began too fast to be told, so durations are of more than one: is that function a "
			"step?\n",
			lost);
	if (profile__comment(s->profile, "steps_unwatched") && !s->seen)
		fputs("further threads were in that function, or in a counted one, and got no watchpoint: what they "
		      "enter is not counted\n",
		      out);
}

static void print_quantiles(const struct steps *s, FILE *out)
{
	char text[3][CUDA_TEXT_BYTES];

	fprintf(out, "\nHow long a step takes\n             time  [95 %% interval]\n");
	for (size_t i = 0; i < STEPS_QUANTILES; i++) {
		const struct steps_quantile *q = &s->quantiles[i];

		fprintf(out, "p%-4.0f  %11s  [%s, %s]\n", 100 * q->q, time_text((double)q->ns, text[0]),
			time_text((double)q->low_ns, text[1]), time_text((double)q->high_ns, text[2]));
	}
	fprintf(out, "max    %11s\n", time_text((double)s->sorted[s->n - 1], text[0]));
	if (s->first_ns)
		fprintf(out, "drift  %+10.1f %%  from %s, the median of the first fifth, to %s, of the last\n",
			100 * ((double)s->last_ns / (double)s->first_ns - 1), time_text((double)s->first_ns, text[0]),
			time_text((double)s->last_ns, text[1]));
}

static void print_histogram(const struct steps *s, FILE *out)
{
	size_t most = 1;
	char text[CUDA_TEXT_BYTES];

	for (size_t i = 0; i < STEPS_HISTOGRAM; i++)
		most = s->histogram[i] > most ? s->histogram[i] : most;
	fputc('\n', out);
	for (size_t i = 0; i < STEPS_HISTOGRAM; i++) {
		if (i + 1 == STEPS_HISTOGRAM)
			fprintf(out, "  > p99         ");
		else
			fprintf(out, "  from %-9s", time_text((double)s->sorted[0] + (double)i * s->bin_ns, text));
		fprintf(out, "%8zu ", s->histogram[i]);
		for (size_t n = (s->histogram[i] * BAR + most - 1) / most; n > 0; n--)
			fputc('#', out);
		fputc('\n', out);
	}
}

static void print_slow(const struct steps *s, const struct slow_step *slow, FILE *out)
{
	char text[CUDA_TEXT_BYTES];

	fprintf(out, "%8zu  %8.2f s %s%9s  %8.1f  ", slow->number, (double)s->begins[slow->number] / 1e9,
		is_whole(s, slow) ? " " : ">", time_text((double)slow->ns, text),
		median_ns(s) > 0 ? (double)slow->ns / median_ns(s) : 0);
	for (size_t i = 0; i < slow->n_more; i++) {
		fprintf(out, "%s%s ", i ? "; " : "", time_text(slow->more[i].ns, text));
		summary__print_name(intern__key(&s->doings, slow->more[i].what),
				    intern__length(&s->doings, slow->more[i].what), out);
	}
	if (!slow->n_more)
		fprintf(out, "nothing that was seen: it was shorter than the time between two samples");
	fputc('\n', out);
}

static void print_what(const struct steps *s, uint32_t what, FILE *out)
{
	if (what == UINT32_MAX)
		fprintf(out, "nothing that was seen");
	else
		summary__print_name(intern__key(&s->doings, what), intern__length(&s->doings, what), out);
}

static void print_causes(const struct steps *s, FILE *out)
{
	struct step_cause causes[STEPS_CAUSES];
	size_t n = steps__causes(s, causes);
	char text[CUDA_TEXT_BYTES];

	if (!n)
		return;
	fprintf(out, "\nWhy steps were slow: of %zu that took more than twice the median", s->n_twice);
	if (s->n_twice > STEPS_COMPARED)
		fprintf(out, ", the %d slowest", STEPS_COMPARED);
	fprintf(out, "\n   steps       lost  by what each did for longer, most of all\n");
	for (size_t i = 0; i < n; i++) {
		fprintf(out, "%8zu  %9s  ", causes[i].steps, time_text(causes[i].lost_ns, text));
		print_what(s, causes[i].what, out);
		fputc('\n', out);
	}
}

void steps__print(const struct steps *s, FILE *out)
{
	print_verdict(s, out);
	print_head(s, out);
	print_quantiles(s, out);
	print_histogram(s, out);
	print_causes(s, out);
	fprintf(out, "\nThe slowest steps, and what each did for longer than a typical step (one of the middle half)\n"
		     "    step        began       time  × median  longer by\n");
	for (size_t i = 0; i < s->n_slow && i < STEPS_SLOWEST; i++)
		print_slow(s, &s->slow[i], out);
}

static json_t *slow_json(const struct steps *s, const struct slow_step *slow)
{
	json_t *more = json_array();

	for (size_t i = 0; i < slow->n_more; i++)
		json_array_append_new(more, json_pack("{s:f, s:o}", "ns", slow->more[i].ns, "what",
						      json_stringn(intern__key(&s->doings, slow->more[i].what),
								   intern__length(&s->doings, slow->more[i].what))));
	return json_pack("{s:I, s:I, s:I, s:b, s:o}", "step", (json_int_t)slow->number, "begin_ns",
			 (json_int_t)s->begins[slow->number], "ns", (json_int_t)slow->ns, "whole", is_whole(s, slow),
			 "longer_by", more);
}

static json_t *cause_json(const struct steps *s, const struct step_cause *cause)
{
	json_t *what = cause->what == UINT32_MAX ? json_null()
						 : json_stringn(intern__key(&s->doings, cause->what),
								intern__length(&s->doings, cause->what));

	return json_pack("{s:I, s:f, s:o}", "steps", (json_int_t)cause->steps, "lost_ns", cause->lost_ns, "what", what);
}

static json_t *seen_json(const struct steps *s)
{
	return s->seen ? json_pack("{s:s, s:I, s:I}", "where", s->where, "within_ns", (json_int_t)s->unsure_ns,
				   "brief_stays", (json_int_t)s->n_brief)
		       : json_null();
}

json_t *steps__json(const struct steps *s)
{
	const char *lost = profile__comment(s->profile, "steps_lost"),
		   *entries_lost = profile__comment(s->profile, "entries_lost");
	json_t *quantiles = json_array(), *slow = json_array(), *histogram = json_array(), *causes_list = json_array();
	struct step_cause causes[STEPS_CAUSES];
	size_t n_causes = steps__causes(s, causes);

	for (size_t i = 0; i < STEPS_QUANTILES; i++)
		json_array_append_new(quantiles, json_pack("{s:f, s:I, s:I, s:I}", "q", s->quantiles[i].q, "ns",
							   (json_int_t)s->quantiles[i].ns, "low_ns",
							   (json_int_t)s->quantiles[i].low_ns, "high_ns",
							   (json_int_t)s->quantiles[i].high_ns));
	for (size_t i = 0; i < STEPS_HISTOGRAM; i++)
		json_array_append_new(histogram, json_integer((json_int_t)s->histogram[i]));
	for (size_t i = 0; i < s->n_slow && i < STEPS_SLOWEST; i++)
		json_array_append_new(slow, slow_json(s, &s->slow[i]));
	for (size_t i = 0; i < n_causes; i++)
		json_array_append_new(causes_list, cause_json(s, &causes[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:o, s:I, s:I, s:I, s:f, s:o, s:I, s:o, s:o, s:o}", "pid",
			 (json_int_t)s->pid, "tid", (json_int_t)s->tid, "steps", (json_int_t)s->n, "lost",
			 (json_int_t)(lost ? atoll(lost) : 0), "counted_lost",
			 (json_int_t)(entries_lost ? atoll(entries_lost) : 0), "unwatched",
			 profile__comment(s->profile, "steps_unwatched") != NULL, "span_ns",
			 (json_int_t)(s->begins[s->n] - s->begins[0]), "quantiles", quantiles, "max_ns",
			 (json_int_t)s->sorted[s->n - 1], "first_fifth_ns", (json_int_t)s->first_ns, "last_fifth_ns",
			 (json_int_t)s->last_ns, "histogram_bin_ns", s->bin_ns, "histogram", histogram, "slow_steps",
			 (json_int_t)s->n_twice, "causes", causes_list, "slowest", slow, "by_samples", seen_json(s));
}
