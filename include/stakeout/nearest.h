/* SPDX-License-Identifier: GPL-2.0-or-later */
/* "Did you mean": the known word that a wrong one was probably meant to be. */
#ifndef STAKEOUT_NEAREST_H
#define STAKEOUT_NEAREST_H

#include <stddef.h>
#include <string.h>

#define NEAREST_MAX_WORD 32
/* Letters that are wrong, missing or too many; of short words fewer. */
#define NEAREST_MAX_DISTANCE 2

/* Levenshtein's distance (Soviet Physics Doklady 10, 1966) of two words of at most NEAREST_MAX_WORD letters. */
static inline size_t nearest__distance(const char *a, const char *b)
{
	size_t row[NEAREST_MAX_WORD + 1], n = strlen(b);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t before = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t above = row[j], best = before + (a[i - 1] != b[j - 1]);

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			before = above;
			row[j] = best;
		}
	}
	return row[n];
}

/* Whether `known` is nearer to the word than *distance, which becomes its own then. Begin with one that is too far. */
static inline int nearest__is_nearer(const char *word, const char *known, size_t *distance)
{
	size_t length = strlen(word), d;

	if (!length || length > NEAREST_MAX_WORD || strlen(known) > NEAREST_MAX_WORD)
		return 0;
	/* A word that is cut is meant by what it begins. */
	d = length >= 3 && !strncmp(word, known, length) ? 1 : nearest__distance(word, known);
	if (d >= *distance || d > NEAREST_MAX_DISTANCE || d >= length)
		return 0;
	*distance = d;
	return 1;
}

#define NEAREST_FAR (NEAREST_MAX_DISTANCE + 1)

#endif
