// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_event_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_column.h"
#include "cuda/cuda_text.h"
#include "client/render/frame_text.h"
#include "client/render/lines_missing.h"
#include "client/session/message.h"
#include "stakeout/array.h"
#include "stakeout/cuda_caller.h"
#include "stakeout/intern.h"
#include "stakeout/short_path.h"

#define TOP_LINES    5
#define NAME_COLUMNS 100

struct place {
	uint32_t text;
	int64_t weight;
};

/* Source lines by the weight of their calls. */
struct places {
	struct intern texts;
	struct place *list; /* by number of the text */
	size_t capacity;
	struct text text;
	int64_t total;
};

static void places__clear(struct places *p)
{
	intern__clear(&p->texts);
	text__clear(&p->text);
	free(p->list);
}
CLEANUP_DEFINE(struct places *, places, places__clear)

static bool comment_number(const struct profile *profile, const char *key, uint64_t *out)
{
	const char *text = profile__comment(profile, key);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

static void clean_copy(const char *text, char *out, size_t size)
{
	snprintf(out, size, "%s", text);
	message__clean(out);
}

int cuda_event_summary__check(const struct profile *profile, pid_t pid, const char *comm, struct so_error *err)
{
	const char *problem = profile__comment(profile, "cuda.problem");
	uint64_t libraries = 0;
	char words[256];

	if (!comment_number(profile, "cuda.libraries", &libraries) || libraries)
		return 0;
	if (!problem)
		return so_err(err, -ENODATA, "CUDA is not loaded in process %d (%s): there are no calls to record", pid,
			      comm);
	clean_copy(problem, words, sizeof(words));
	return so_err(err, -ENODATA, "the CUDA calls of process %d (%s) cannot be recorded: %s", pid, comm, words);
}

/* Places. */

static bool is_cuda_library(const char *mapping)
{
	const char *base = short_path(mapping);

	return !strncmp(base, "libcudart", 9) || !strncmp(base, "libcuda.so", 10);
}

/*
 * The innermost Python frame; else the innermost one that is not CUDA's (stakeout/cuda_caller.h); else the innermost. A
 * stack has at least the frame of the API, which comes first.
 */
static const struct profile_line *place_of(const struct profile *profile, const struct profile_sample *sample)
{
	const struct profile_line *native = NULL;
	const char *stub = NULL; /* the innermost one */

	for (size_t i = 0; i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (line->python)
			return line;
		if (!i || native || !*line->mapping || is_cuda_library(line->mapping))
			continue;
		if (cuda_caller__is_cuda(line->function, line->filename)) {
			if (!stub && cuda_caller__is_stub(line->function))
				stub = line->function;
		} else if (!stub || i + 1 == sample->n_lines || !cuda_caller__is_kernel(line->function, stub)) {
			native = line;
		}
	}
	if (native)
		return native;
	return sample->n_lines ? &profile->lines[sample->lines[0]] : NULL;
}

static int add_sample(struct places *p, const struct profile *profile, const struct profile_sample *sample)
{
	const struct profile_line *line = place_of(profile, sample);
	uint32_t number;
	int ret;

	p->text.length = 0;
	if (!line)
		ret = frame_text__words("[unknown]", &p->text);
	else
		ret = line->python ? frame_text__folded(line, false, &p->text) : frame_text__line(line, &p->text);
	if (ret || ARRAY_RESERVE(p->list, p->capacity, p->texts.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&p->texts, p->text.bytes, p->text.length, &number);
	if (ret < 0)
		return ret;
	if (ret)
		p->list[number] = (struct place){ number, 0 };
	/* The sum fits: the profile's reader has checked the total. */
	p->list[number].weight += sample->count;
	p->total += sample->count;
	return 0;
}

static int find_places(struct places *p, const struct profile *profile)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_samples; i++) {
		if (profile->samples[i].count)
			ret = add_sample(p, profile, &profile->samples[i]);
	}
	return ret;
}

static int by_weight(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->text < y->text ? -1 : x->text > y->text;
}

static void weight_text(enum so_cuda_weight weight, double value, char text[CUDA_TEXT_BYTES])
{
	if (weight == SO_CUDA_WEIGHT_TIME)
		cuda_text__time(value, text);
	else if (weight == SO_CUDA_WEIGHT_BYTES)
		cuda_text__bytes(value, text);
	else
		cuda_text__count((uint64_t)value, text);
}

static void print_places(struct places *p, enum so_cuda_weight weight, FILE *out)
{
	size_t n = p->texts.n_keys;

	if (!n)
		return;
	qsort(p->list, n, sizeof(*p->list), by_weight);
	fprintf(out, "  share  %10s  line\n", so_cuda_weights[weight].word);
	for (size_t i = 0; i < n && i < TOP_LINES; i++) {
		const struct place *place = &p->list[i];
		char text[CUDA_TEXT_BYTES];
		_cleanup_free_ char *name =
			strndup(intern__key(&p->texts, place->text), intern__length(&p->texts, place->text));

		weight_text(weight, (double)place->weight, text);
		fprintf(out, "%5.1f %%  ", 100.0 * (double)place->weight / (double)p->total);
		cuda_column__cell(text, 10, out);
		fputs("  ", out);
		cuda_column__name(name ?: "?", NAME_COLUMNS, out);
		fputc('\n', out);
	}
	if (n > TOP_LINES)
		fprintf(out, "and %zu more line%s\n", n - TOP_LINES, n - TOP_LINES == 1 ? "" : "s");
}

/* The head. */

static void print_figure(const struct profile *profile, const char *key, enum so_cuda_weight weight, const char *words,
			 FILE *out)
{
	char text[CUDA_TEXT_BYTES];
	uint64_t value;

	if (!comment_number(profile, key, &value))
		return;
	weight_text(weight, (double)value, text);
	fprintf(out, ", %s %s", text, words);
}

static void print_losses(const struct profile *profile, FILE *out)
{
	static const char prefix[] = "stakeout.lost.";
	unsigned n = 0;

	for (size_t i = 0; i < profile->n_comments; i++) {
		char words[80];

		if (strncmp(profile->comments[i], prefix, sizeof(prefix) - 1) != 0)
			continue;
		clean_copy(profile->comments[i] + sizeof(prefix) - 1, words, sizeof(words));
		fprintf(out, "%s%s", n++ ? ", " : "lost: ", words);
	}
	if (n)
		fputc('\n', out);
}

static void print_nearness(const struct profile *profile, FILE *out)
{
	const char *text = profile__comment(profile, "cuda.calls_error");
	char *end = NULL;
	double error = text ? strtod(text, &end) : NAN;

	fprintf(out, "estimates: the calls were counted in windows alone, and scaled to all of the time; ");
	if (!text || end == text || *end || !(error >= 0))
		fprintf(out, "how near is not known; record for longer\n");
	else if (error >= 1)
		fprintf(out, "too uncertain to be of use; record for longer\n");
	else
		fprintf(out, "the number of calls is right within %.*f %% (95 %%)\n", error < 0.01,
			fmax(100 * error, 0.1));
}

static void print_head(const struct profile *profile, const struct so_cuda_event_info *event, int64_t in_stacks,
		       FILE *out)
{
	const char *estimated = profile__comment(profile, "cuda.estimated");
	bool scaled = estimated && !strcmp(estimated, "1");
	uint64_t calls = 0, period = 0;

	if (comment_number(profile, "cuda.calls", &calls))
		fprintf(out, "%s: %s%" PRIu64 " call%s", event->word, scaled ? "~" : "", calls, calls == 1 ? "" : "s");
	else
		fprintf(out, "%s", event->word);
	print_figure(profile, "cuda.time_ns", SO_CUDA_WEIGHT_TIME, "on the host", out);
	print_figure(profile, "cuda.bytes", SO_CUDA_WEIGHT_BYTES, "in all", out);
	fputc('\n', out);
	if (scaled)
		print_nearness(profile, out);
	if (!calls) {
		fprintf(out, "nothing was called: the profile is empty\n");
		return;
	}
	fprintf(out, "in the stacks: %" PRId64 " call%s", in_stacks, in_stacks == 1 ? "" : "s");
	if (comment_number(profile, "cuda.stack_period", &period) && period > 1)
		fprintf(out,
			" (one in %" PRIu64 ", and more of long ones, had its stack taken when the recording "
			"ended; scaled up)",
			period);
	else if (period == 1)
		fprintf(out, " (each had its stack taken when the recording ended)");
	fputc('\n', out);
}

static int sum_of_calls(const uint8_t *bytes, size_t length, int64_t *sum)
{
	_cleanup_(profile) struct profile *profile = NULL;
	int ret = profile__read_value(bytes, length, so_cuda_weights[SO_CUDA_WEIGHT_CALLS].type, &profile, NULL);

	*sum = 0;
	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		*sum += profile->samples[i].count;
	return ret;
}

static void print_lines_missing(const struct profile *profile, FILE *out)
{
	char text[LINES_MISSING_TEXT_BYTES];
	uint64_t missing;

	if (comment_number(profile, LINES_MISSING_COMMENT, &missing) && missing)
		fprintf(out, "%s\n", lines_missing__text(missing, text));
}

int cuda_event_summary__print(const uint8_t *bytes, size_t length, const struct so_cuda_event_info *event,
			      enum so_cuda_weight weight, FILE *out)
{
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_(places) struct places *places = &(struct places){ .total = 0 };
	int64_t in_stacks;
	int ret;

	ret = profile__read_value(bytes, length, so_cuda_weights[weight].type, &profile, NULL);
	ret = ret ?: sum_of_calls(bytes, length, &in_stacks);
	ret = ret ?: find_places(places, profile);
	if (ret)
		return ret;
	print_head(profile, event, in_stacks, out);
	print_losses(profile, out);
	print_lines_missing(profile, out);
	print_places(places, weight, out);
	return 0;
}
