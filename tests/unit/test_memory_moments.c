// SPDX-License-Identifier: GPL-2.0-or-later
/* What lines have in use at a second moment that they had not at the first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/memory_moments.h"

#define MB 1e6

static struct memory_line first[] = {
	{ .text = "keep (a.py:1)", .in_use = 10 * MB },
	{ .text = "gone (a.py:2)", .in_use = 40 * MB },
	{ .text = "same (a.py:3)", .in_use = 5 * MB },
};
static struct memory_line second[] = {
	{ .text = "new (a.py:4)", .in_use = 1 * MB },
	{ .text = "same (a.py:3)", .in_use = 5 * MB },
	{ .text = "keep (a.py:1)", .in_use = 35 * MB },
};
static const struct memory_lines before = { first, 3, .in_use = 55 * MB }, now = { second, 3, .in_use = 41 * MB };

static void lines_are_matched_by_their_text(void **state)
{
	_cleanup_(memory_moments) struct memory_moments m = { .n = 0 };

	assert_int_equal(memory_moments__compare(&before, 0, &now, 0, &m), 0);
	assert_int_equal(m.n, 4);
	assert_string_equal(m.lines[0].text, "gone (a.py:2)");
	assert_true(m.lines[0].change == -40 * MB && m.lines[0].low == -40 * MB && m.lines[0].high == -40 * MB);
	assert_string_equal(m.lines[1].text, "keep (a.py:1)");
	assert_true(m.lines[1].before == 10 * MB && m.lines[1].now == 35 * MB && m.lines[1].change == 25 * MB);
	assert_string_equal(m.lines[2].text, "new (a.py:4)");
	assert_true(m.lines[2].before == 0 && m.lines[2].change == 1 * MB);
	assert_true(m.lines[3].change == 0);
	assert_true(m.all.before == 55 * MB && m.all.now == 41 * MB && m.all.change == -14 * MB);
}

/* Pages of 16 KiB each: 10 MB are 610 of them, 35 MB 2136. */
static void the_interval_is_that_of_sampled_pages(void **state)
{
	_cleanup_(memory_moments) struct memory_moments m = { .n = 0 };
	double error;

	assert_int_equal(memory_moments__compare(&before, 16384, &now, 16384, &m), 0);
	error = 1.96 * sqrt(45 * MB * 16384);
	assert_true(fabs(m.lines[1].low - (25 * MB - error)) < 1 && fabs(m.lines[1].high - (25 * MB + error)) < 1);
}

static void rows_that_do_not_change_are_counted(void **state)
{
	_cleanup_(memory_moments) struct memory_moments m = { .n = 0 };
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_int_equal(memory_moments__compare(&before, 0, &now, 0, &m), 0);
	memory_moments__print(&m, 2, out);
	fclose(out);
	assert_non_null(strstr(text, "in use, by lines: 55.0 MB at first, then 41.0: -14.0 MB [-14.0, -14.0]\n"));
	assert_non_null(strstr(text, "        -40.0  [-40.0, -40.0]         40.0        0.0  gone (a.py:2)\n"));
	assert_non_null(strstr(text, "and 2 more lines\n"));
	assert_null(strstr(text, "same"));
}

static void two_of_nothing(void **state)
{
	_cleanup_(memory_moments) struct memory_moments m = { .n = 0 };
	const struct memory_lines none = { .n = 0 };

	assert_int_equal(memory_moments__compare(&none, 0, &none, 0, &m), 0);
	assert_int_equal(m.n, 0);
	assert_true(m.all.change == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_matched_by_their_text),
		cmocka_unit_test(the_interval_is_that_of_sampled_pages),
		cmocka_unit_test(rows_that_do_not_change_are_counted),
		cmocka_unit_test(two_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
