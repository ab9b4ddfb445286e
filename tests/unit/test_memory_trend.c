// SPDX-License-Identifier: GPL-2.0-or-later
/* What is said of memory that the history has: of answers as the daemon makes them, and of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/memory_trend.h"

#define SECOND_NS ((json_int_t)1000000000)
#define BEGIN_NS  (1700000400 * SECOND_NS)
#define MB        1000000

/* Ten seconds; own < 0: nothing is known. A tenth of what it has of its own is swapped out. */
static json_t *row(unsigned i, json_int_t own)
{
	json_int_t begin_ns = BEGIN_NS + 10 * i * SECOND_NS;

	if (own < 0)
		return json_pack("{s:I, s:I, s:f, s:n, s:n, s:n, s:n, s:n}", "begin_ns", begin_ns, "end_ns",
				 begin_ns + 10 * SECOND_NS, "covered_s", 10.0, "anonymous_bytes", "file_bytes",
				 "shared_bytes", "swapped_bytes", "most_bytes");
	return json_pack("{s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "begin_ns", begin_ns, "end_ns",
			 begin_ns + 10 * SECOND_NS, "covered_s", 10.0, "anonymous_bytes", own - own / 10, "file_bytes",
			 (json_int_t)20 * MB, "shared_bytes", (json_int_t)3 * MB, "swapped_bytes", own / 10,
			 "most_bytes", own + 30 * MB);
}

/* n windows that have `first` bytes of their own, and so many more each. */
static json_t *answer(unsigned n, json_int_t first, json_int_t more)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(rows, row(i, first + more * (json_int_t)i));
	return json_pack("{s:f, s:o}", "covered_s", 10.0 * n, "rows", rows);
}

static char *text_of(const json_t *from)
{
	_cleanup_(memory_trend) struct memory_trend trend = { .n = 0 };
	struct so_error err = { .text = "" };
	size_t length;
	char *text;
	FILE *out;

	if (memory_trend__read(from, 7, &trend, &err))
		fail_msg("%s", err.text);
	out = open_memstream(&text, &length);
	memory_trend__print(&trend, out);
	fclose(out);
	return text;
}

static void assert_text(json_t *from, const char *first, const char *second)
{
	_cleanup_free_ char *text = text_of(from);

	if (!strstr(text, first) || !strstr(text, second))
		fail_msg("no \"%s\" or no \"%s\" in:\n%s", first, second, text);
	json_decref(from);
}

static void growth_is_told(void **state)
{
	/* A megabyte in ten seconds. */
	assert_text(answer(30, 100 * MB, MB), "growing: +6.0 MB a minute [+6.0, +6.0]\n",
		    "129.0 MB of its own, files 20.0 MB (+0.0 a minute), shared 3.0 MB (+0.0)\n");
	assert_text(answer(30, 100 * MB, MB),
		    "  ▁▁▁▁▂▂▂▂▃▃▃▄▄▄▄▅▅▅▅▆▆▆▇▇▇▇████\n  (▁ 100.0 MB, █ 129.0 MB of its own)\n",
		    "most: 159.0 MB, with files, shared and swapped memory, between ");
	assert_text(answer(30, 100 * MB, 0), "not growing: +0.0 MB a minute [+0.0, +0.0]\n", "  ██████");
	assert_text(answer(3, 100 * MB, MB), "not known: 3 windows in 20 s are too few: ask for a longer time\n", "▁");
}

/* What changes by less than a tenth is no mountain. */
static void small_changes_look_small(void **state)
{
	json_t *from = answer(20, 1000 * MB, 0);

	json_array_set_new(json_object_get(from, "rows"), 10, row(10, 980 * MB));
	assert_text(from, "  ██████████▇█████████\n  (▁ 900.0 MB, █ 1000.0 MB of its own)\n", "not growing");
}

static void what_is_not_known_is_left_out(void **state)
{
	json_t *from = answer(20, 100 * MB, MB);
	_cleanup_(memory_trend) struct memory_trend trend = { .n = 0 };
	json_t *rows = json_object_get(from, "rows"), *json;

	for (unsigned i = 5; i < 8; i++)
		json_array_set_new(rows, i, row(i, -1));
	assert_int_equal(memory_trend__read(from, 7, &trend, NULL), 0);
	assert_int_equal(trend.n, 20);
	assert_int_equal(trend.known, 17);
	json = memory_trend__json(&trend);
	assert_true(json_is_null(json_object_get(json_array_get(json_object_get(json, "windows"), 6), "most_bytes")));
	assert_string_equal(json_string_value(json_object_get(json, "verdict")), "growing");
	assert_float_equal(json_number_value(json_object_get(json, "growth_bytes_per_s")), 1e5, 10);
	assert_float_equal(json_number_value(json_object_get(json, "most_bytes")), 149e6, 0);
	assert_int_equal(json_integer_value(json_object_get(json, "most_begin_ns")), BEGIN_NS + 190 * SECOND_NS);
	json_decref(json);
	assert_text(from, "▁▁▁▂▂   ▄▄", "of 3 of 20 windows the memory is not known\n");
}

/* More windows than bars: as many as fit, and each is the mean of its time. */
static void bars_are_few(void **state)
{
	_cleanup_free_ char *text = NULL;
	json_t *from = answer(600, 0, MB);
	unsigned n = 0;

	text = text_of(from);
	for (const char *at = text; (at = strstr(at, "\xe2\x96")); at++)
		n++;
	assert_int_equal(n, 60 + 2);
	json_decref(from);
}

static void assert_refused(json_t *from, int code, const char *words)
{
	_cleanup_(memory_trend) struct memory_trend trend = { .n = 0 };
	struct so_error err = { .text = "" };

	assert_int_equal(memory_trend__read(from, 7, &trend, &err), code);
	assert_non_null(strstr(err.text, words));
	json_decref(from);
}

static json_t *with(const char *name, json_t *value)
{
	json_t *from = answer(10, MB, MB);

	json_object_set_new(json_array_get(json_object_get(from, "rows"), 4), name, value);
	return from;
}

static void other_answers_are_refused(void **state)
{
	json_t *unknown = json_pack("{s:[o]}", "rows", row(0, -1));

	assert_refused(unknown, -ENODATA, "does not say how much memory");
	assert_refused(answer(0, 0, 0), -ENODATA, "does not say how much memory");
	assert_refused(json_object(), -EPROTO, "no rows");
	assert_refused(with("begin_ns", json_string("x")), -EPROTO, "a row that is none");
	assert_refused(with("begin_ns", json_integer(-5)), -EPROTO, "a row that is none");
	assert_refused(with("begin_ns", json_integer(1)), -EPROTO, "a row that is none");
	assert_refused(with("end_ns", json_integer(BEGIN_NS)), -EPROTO, "a row that is none");
	assert_refused(with("file_bytes", json_integer(-1)), -EPROTO, "a row that is none");
	assert_refused(with("swapped_bytes", json_true()), -EPROTO, "a row that is none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_is_told),
		cmocka_unit_test(small_changes_look_small),
		cmocka_unit_test(what_is_not_known_is_left_out),
		cmocka_unit_test(bars_are_few),
		cmocka_unit_test(other_answers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
