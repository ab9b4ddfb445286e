// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_phases.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/frame_pattern.h"
#include "client/summary/summary_parts.h"
#include "stakeout/utf8.h"

#define COMPARED_BYTES 120 /* of a name, in the search for similar ones */

struct phase {
	char name[PHASE_MAX_NAME_BYTES + 1];
	const char *pattern;
	struct regexp *expression;
};

struct phases {
	struct phase list[PHASES_MAX];
	size_t n;
};

void phases__free(struct phases *phases)
{
	for (size_t i = 0; phases && i < phases->n; i++)
		regexp__free(phases->list[i].expression);
	free(phases);
}

static bool is_clean(const char *name, size_t length)
{
	for (size_t i = 0, n; i < length; i += n) {
		n = utf8__sequence(name + i, length - i);
		/* C1 controls are 0xc2 0x80 … 0xc2 0x9f. */
		if (!n || (unsigned char)name[i] < 0x20 || name[i] == 0x7f ||
		    (n == 2 && (unsigned char)name[i] == 0xc2 && (unsigned char)name[i + 1] < 0xa0))
			return false;
	}
	return true;
}

static int add(struct phases *phases, const char *word, struct so_error *err)
{
	const char *equals = strchr(word, '=');
	struct phase *phase = &phases->list[phases->n];
	struct so_error why = { "" };
	size_t length;
	int ret;

	if (!equals || equals == word || !equals[1])
		return so_err(err, -EINVAL, "--phase '%s': not of the form NAME=PATTERN", word);
	length = (size_t)(equals - word);
	if (length > PHASE_MAX_NAME_BYTES || !is_clean(word, length))
		return so_err(err, -EINVAL,
			      "--phase '%s': a name is UTF-8 of at most %d bytes without control characters", word,
			      PHASE_MAX_NAME_BYTES);
	for (size_t i = 0; i < phases->n; i++)
		if (strlen(phases->list[i].name) == length && !memcmp(phases->list[i].name, word, length))
			return so_err(err, -EINVAL, "--phase %s is given twice", phases->list[i].name);
	memcpy(phase->name, word, length);
	phase->name[length] = '\0';
	phase->pattern = equals + 1;
	ret = regexp__compile(phase->pattern, &phase->expression, &why);
	if (ret < 0)
		return so_err(err, ret, "--phase %s: %s", phase->name, why.text);
	phases->n++;
	return 0;
}

int phases__new(const char *const *words, size_t n, struct phases **out, struct so_error *err)
{
	_cleanup_(phases) struct phases *phases = NULL;
	int ret = 0;

	if (n > PHASES_MAX)
		return so_err(err, -EINVAL, "more than %d phases", PHASES_MAX);
	phases = calloc(1, sizeof(*phases));
	if (!phases)
		return so_err(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < n; i++)
		ret = add(phases, words[i], err);
	if (!ret)
		*out = TAKE_PTR(phases);
	return ret;
}

size_t phases__count(const struct phases *phases)
{
	return phases ? phases->n : 0;
}

const char *phases__name(const struct phases *phases, size_t i)
{
	return phases->list[i].name;
}

const char *phases__pattern(const struct phases *phases, size_t i)
{
	return phases->list[i].pattern;
}

/* functions: those without a name match nothing; NULL: all may. */
static bool *match_lines(const struct phase *phase, const struct profile *profile, const struct names *functions)
{
	bool *matches = calloc(profile->n_lines + 1, sizeof(*matches));
	/* Lines of one function follow each other mostly. */
	const struct profile_line *last = NULL;
	bool matched = false;

	for (size_t i = 0; matches && i < profile->n_lines; i++) {
		const struct profile_line *line = &profile->lines[i];

		if (functions && functions->of_line[i] == NAMES_NONE)
			continue;
		if (!last || last->function != line->function || last->filename != line->filename ||
		    last->mapping != line->mapping)
			matched = frame_pattern__matches(phase->expression, line);
		last = line;
		matches[i] = matched;
	}
	return matches;
}

bool *phases__lines(const struct phases *phases, size_t i, const struct profile *profile)
{
	return match_lines(&phases->list[i], profile, NULL);
}

struct matched {
	uint32_t name;
	struct share share;
};

static int compare_matched(const void *a, const void *b)
{
	const struct matched *x = a, *y = b;

	if (x->share.samples != y->share.samples)
		return x->share.samples < y->share.samples ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static void count_samples(const struct scope *scope, const struct names *functions, const bool *matches,
			  struct matched *by_name, struct share *sum)
{
	const struct profile *profile = scope->profile;
	struct share share;

	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		size_t frame = sample->n_lines;

		if (!scope__share(scope, sample, &share))
			continue;
		while (frame && !matches[sample->lines[frame - 1]])
			frame--;
		if (!frame)
			continue;
		share__add(sum, &share);
		share__add(&by_name[functions->of_line[sample->lines[frame - 1]]].share, &share);
	}
}

/* Small letters and digits of a name or a pattern: what is compared. */
static size_t letters(const char *text, size_t length, char out[COMPARED_BYTES])
{
	size_t n = 0;

	for (size_t i = 0; i < length && n < COMPARED_BYTES; i++)
		if (isalnum((unsigned char)text[i]))
			out[n++] = (char)tolower((unsigned char)text[i]);
	return n;
}

/* Pairs of letters that both have, of all pairs: Dice's coefficient, 0 … 1. */
static double similarity(const char *a, size_t n_a, const char *b, size_t n_b)
{
	bool used[COMPARED_BYTES] = { false };
	size_t common = 0;

	if (n_a < 2 || n_b < 2)
		return 0;
	for (size_t i = 0; i + 1 < n_a; i++) {
		for (size_t j = 0; j + 1 < n_b; j++) {
			if (used[j] || a[i] != b[j] || a[i + 1] != b[j + 1])
				continue;
			used[j] = true;
			common++;
			break;
		}
	}
	return 2 * (double)common / (double)(n_a + n_b - 2);
}

/* How well a function's name without its file fits, also its last part alone ("Env.step": "step"). */
static double fit(const char *pattern, size_t n, const char *name)
{
	const char *dot = strrchr(name, '.'), *colon = strrchr(name, ':');
	const char *part = dot > colon ? dot : colon;
	char text[COMPARED_BYTES];
	double whole = similarity(pattern, n, text, letters(name, strlen(name), text)), last = 0;

	if (part)
		last = similarity(pattern, n, text, letters(part, strlen(part), text));
	return last > whole ? last : whole;
}

#define FIT_ENOUGH 0.4

static void find_hints(const struct phase *phase, const struct scope *scope, const struct names *functions,
		       struct phase_result *out)
{
	double fits[PHASE_HINTS] = { 0 };
	char pattern[COMPARED_BYTES];
	size_t n = letters(phase->pattern, strlen(phase->pattern), pattern);

	for (uint32_t name = 0; name < functions->texts.n_keys; name++) {
		const struct profile_line *line = &scope->profile->lines[functions->example[name]];
		double f = fit(pattern, n, line->function);
		size_t at = out->n_hints;

		if (f < FIT_ENOUGH)
			continue;
		while (at && fits[at - 1] < f)
			at--;
		if (at == PHASE_HINTS)
			continue;
		for (size_t i = out->n_hints < PHASE_HINTS ? out->n_hints : PHASE_HINTS - 1; i > at; i--) {
			fits[i] = fits[i - 1];
			out->hints[i] = out->hints[i - 1];
		}
		fits[at] = f;
		out->hints[at] = name;
		out->n_hints += out->n_hints < PHASE_HINTS;
	}
}

int phases__measure(const struct phases *phases, size_t i, const struct scope *scope, const struct names *functions,
		    struct phase_result *out)
{
	const struct phase *phase = &phases->list[i];
	size_t n = functions->texts.n_keys;
	_cleanup_free_ bool *matches = match_lines(phase, scope->profile, functions);
	_cleanup_free_ struct matched *by_name = calloc(n + 1, sizeof(*by_name));

	if (!matches || !by_name)
		return -ENOMEM;
	*out = (struct phase_result){ .name = phase->name, .pattern = phase->pattern };
	for (uint32_t name = 0; name < n; name++)
		by_name[name].name = name;
	count_samples(scope, functions, matches, by_name, &out->share);
	qsort(by_name, n, sizeof(*by_name), compare_matched);
	while (out->n_matched < n && by_name[out->n_matched].share.samples)
		out->n_matched++;
	for (; out->n_functions < PHASE_FUNCTIONS && out->n_functions < out->n_matched; out->n_functions++) {
		out->functions[out->n_functions].name = by_name[out->n_functions].name;
		out->functions[out->n_functions].share = by_name[out->n_functions].share;
	}
	if (!out->n_matched)
		find_hints(phase, scope, functions, out);
	return 0;
}

static void print_name(const struct names *functions, uint32_t name, FILE *out)
{
	summary__print_short(intern__key(&functions->texts, name), intern__length(&functions->texts, name), out);
}

static void print_details(const struct phase_result *phase, const struct scope *scope, const struct names *functions,
			  FILE *out)
{
	fprintf(out, SUMMARY_INDENT);
	for (size_t i = 0; i < phase->n_functions; i++) {
		fprintf(out, i ? ", " : "under ");
		print_name(functions, phase->functions[i].name, out);
		if (phase->n_matched > 1)
			fprintf(out, " %.1f %%", summary__percent(&phase->functions[i].share, &scope->total));
	}
	if (phase->n_matched > phase->n_functions)
		fprintf(out, " and %zu more", phase->n_matched - phase->n_functions);
	if (!phase->n_matched)
		fprintf(out, "no function matches%s", phase->n_hints ? "; similar: " : "");
	for (size_t i = 0; i < phase->n_hints; i++) {
		fprintf(out, i ? ", " : "");
		print_name(functions, phase->hints[i], out);
	}
	fputc('\n', out);
}

int phases__print(const struct phases *phases, const struct scope *scope, const struct names *functions, FILE *out)
{
	int ret = 0;

	if (phases__count(phases))
		fprintf(out, "  total  [95 %% interval]  %s phase=pattern: all that these functions call\n",
			summary__seconds_head(scope));
	for (size_t i = 0; !ret && i < phases__count(phases); i++) {
		struct phase_result phase;

		ret = phases__measure(phases, i, scope, functions, &phase);
		if (ret < 0)
			break;
		summary__print_share(&phase.share, scope, out);
		fprintf(out, "%s=", phase.name);
		ret = summary__print_foreign(phase.pattern, out);
		fputc('\n', out);
		print_details(&phase, scope, functions, out);
	}
	return ret;
}
