// SPDX-License-Identifier: GPL-2.0-or-later
/* Figures about a recording: the daemon's `--stats` object, or the same from a profile's comments. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/summary/summary_parts.h"
#include "stakeout/cleanup.h"

#define COMMENTS  "stakeout."
#define PYTHON    COMMENTS "python."
#define MAX_TEXTS 16 /* of one key; another tool's file may repeat it without end */

bool figures__number(const json_t *object, const char *key, double *out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		return false;
	*out = json_number_value(value);
	return isfinite(*out);
}

struct cause {
	const char *word;
	double n;
};

static int compare_causes(const void *a, const void *b)
{
	const struct cause *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return strcmp(x->word, y->word);
}

int figures__print_causes(const char *what, const json_t *causes, double *sum, FILE *out)
{
	_cleanup_free_ struct cause *list = NULL;
	const char *word;
	double total = 0;
	size_t n = 0;
	json_t *value;

	if (!json_is_object(causes)) {
		fprintf(out, "%s " NOT_MEASURED, what);
		return 0;
	}
	list = calloc(json_object_size(causes) + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	json_object_foreach ((json_t *)causes, word, value) {
		if (!json_is_number(value) || !(json_number_value(value) > 0))
			continue;
		list[n++] = (struct cause){ word, json_number_value(value) };
		total += json_number_value(value);
	}
	qsort(list, n, sizeof(*list), compare_causes);
	fprintf(out, "%s %.0f", what, total);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s %s %.0f", i ? "," : ":", list[i].word, list[i].n);
	*sum = total;
	return 0;
}

void figures__print_complete(double complete, double all, FILE *out)
{
	double percent;

	if (!(complete >= 0) || !(all > 0)) {
		fprintf(out, "complete " NOT_MEASURED);
		return;
	}
	percent = 100 * complete / all;
	if (complete < all && percent > 99.9)
		percent = 99.9;
	fprintf(out, "complete %.1f %%", percent);
}

/* "PREFIX.CAUSE=N" of a comment goes to causes[CAUSE]. What stakeout would not have written is passed over. */
static void take_cause(json_t *causes, const char *prefix, const char *comment)
{
	size_t skip = strlen(prefix), n;
	char word[64], *end;
	long long value;

	if (strncmp(comment, prefix, skip))
		return;
	n = strspn(comment + skip, "abcdefghijklmnopqrstuvwxyz0123456789-");
	if (!n || n >= sizeof(word) || comment[skip + n] != '=')
		return;
	snprintf(word, sizeof(word), "%.*s", (int)n, comment + skip);
	errno = 0;
	value = strtoll(comment + skip + n + 1, &end, 10);
	if (!errno && !*end && value >= 0)
		json_object_set_new(causes, word, json_integer(value));
}

/* The text behind "PREFIX=", which jansson refuses if it is no UTF-8. */
static json_t *text_of(const char *prefix, const char *comment)
{
	size_t skip = strlen(prefix);

	return strncmp(comment, prefix, skip) ? NULL : json_string(comment + skip);
}

static void rename_figure(json_t *object, const char *from, const char *to)
{
	json_t *value = json_object_get(object, from);

	if (value)
		json_object_set(object, to, value);
}

/* The member "python", as in the `--stats` object; NULL when the comments know of no interpreter. */
static json_t *python_in_comments(const struct profile *profile)
{
	json_t *python = json_object(), *truncated = json_object(), *versions = json_array();

	for (size_t i = 0; i < profile->n_comments; i++) {
		const char *comment = profile->comments[i];

		take_cause(python, PYTHON, comment);
		take_cause(truncated, PYTHON "truncated.", comment);
		if (json_array_size(versions) < MAX_TEXTS)
			json_array_append_new(versions, text_of(PYTHON "version=", comment));
		if (!json_object_get(python, "problem"))
			json_object_set_new(python, "problem", text_of(PYTHON "problem=", comment));
	}
	rename_figure(python, "stale", "stale_frames");
	rename_figure(python, "unreadable", "unreadable_frames");
	if (json_array_size(versions) || json_object_get(python, "problem")) {
		json_object_set_new(python, "versions", versions);
		json_object_set_new(python, "truncated", truncated);
		return python;
	}
	json_decref(versions);
	json_decref(truncated);
	json_decref(python);
	return NULL;
}

json_t *figures__from_comments(const struct profile *profile)
{
	json_t *figures = json_object(), *truncated = json_object(), *lost = json_object();

	for (size_t i = 0; i < profile->n_comments; i++) {
		take_cause(figures, COMMENTS, profile->comments[i]);
		take_cause(truncated, COMMENTS "truncated.", profile->comments[i]);
		take_cause(lost, COMMENTS "lost.", profile->comments[i]);
	}
	json_object_set_new(figures, "truncated", truncated);
	json_object_set_new(figures, "lost", lost);
	if (json_object_get(figures, "complete")) {
		/* Without Python there is nothing to set. */
		json_object_set_new(figures, "python", python_in_comments(profile));
		return figures;
	}
	json_decref(figures);
	return NULL;
}

json_t *figures__of(const struct profile *profile, const json_t *stats)
{
	json_t *figures = figures__from_comments(profile);

	if (!stats || json_object_get(figures, "forgotten"))
		return figures;
	json_decref(figures);
	return NULL;
}
