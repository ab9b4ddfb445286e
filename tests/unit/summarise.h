/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The summary as a text, for the tests of it. Include after <cmocka.h>. */
#ifndef STAKEOUT_TESTS_SUMMARISE_H
#define STAKEOUT_TESTS_SUMMARISE_H

#include "client/render/render.h"

#define MS 10101010 /* a period of 99 Hz */

/*
 * stats: JSON text, or NULL. Every summary: no blank at the end of a line, one newline at the end. Not inlined: gcc
 * would take the memory stream's buffer for a local variable that has gone.
 */
static __attribute__((noinline)) char *summarise_part(const struct profile *p, const char *stats_text,
						      const struct render_options *options)
{
	struct so_error err = { "" };
	json_error_t json_error;
	json_t *stats = stats_text ? json_loads(stats_text, 0, &json_error) : NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(!stats, !stats_text);
	assert_int_equal(options ? render__summary_of(p, stats, options, out, &err)
				 : render__summary(p, stats, out, &err),
			 0);
	fclose(out);
	json_decref(stats);
	assert_null(strstr(text, " \n"));
	assert_int_equal(text[length - 1], '\n');
	return text;
}

static inline char *summarise(const struct profile *p, const char *stats_text)
{
	return summarise_part(p, stats_text, NULL);
}

static inline void assert_summary(const struct profile *p, const char *stats, const char *expected)
{
	char *text = summarise(p, stats);

	assert_string_equal(text, expected);
	free(text);
}

#endif
