// SPDX-License-Identifier: GPL-2.0-or-later
/* Which line, and which function, of the new side is which of the base. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/diff/match.h"

#define N(array) (sizeof(array) / sizeof(*(array)))
#define NONE     MATCH_NONE

static void assert_lines(const struct line_amount *base, size_t n_base, const struct line_amount *now, size_t n_now,
			 const uint32_t *expected)
{
	uint32_t *found = calloc(n_now, sizeof(*found));

	assert_int_equal(match__lines(base, n_base, now, n_now, found), 0);
	for (size_t i = 0; i < n_now; i++)
		if (found[i] != expected[i])
			fail_msg("line %d: %d, expected %d", (int)now[i].line, (int)found[i], (int)expected[i]);
	free(found);
}

static void lines_that_did_not_move(void **state)
{
	const struct line_amount base[] = { { 10, 5 }, { 11, 3 }, { 15, 2 } },
				 now[] = { { 10, 4 }, { 11, 4 }, { 12, 0.5 }, { 15, 1.5 } };

	assert_lines(base, N(base), now, N(now), (const uint32_t[]){ 0, 1, NONE, 2 });
}

static void all_lines_moved(void **state)
{
	const struct line_amount base[] = { { 10, 5 }, { 11, 3 }, { 15, 2 } },
				 now[] = { { 52, 5 }, { 53, 3 }, { 57, 2 } };

	assert_lines(base, N(base), now, N(now), (const uint32_t[]){ 0, 1, 2 });
}

/* Two lines are put in, the first of which takes time. */
static void lines_were_put_in(void **state)
{
	const struct line_amount base[] = { { 10, 5 }, { 11, 3 }, { 15, 2 } },
				 now[] = { { 10, 5 }, { 11, 1 }, { 13, 3 }, { 17, 2 } };

	assert_lines(base, N(base), now, N(now), (const uint32_t[]){ 0, NONE, 1, 2 });
}

static void lines_were_taken_out(void **state)
{
	const struct line_amount base[] = { { 10, 5 }, { 11, 1 }, { 13, 3 }, { 17, 2 } },
				 now[] = { { 10, 5 }, { 11, 3 }, { 15, 2 } };

	assert_lines(base, N(base), now, N(now), (const uint32_t[]){ 0, 2, 3 });
}

/* A line that became fast is no other line. */
static void a_line_that_changed(void **state)
{
	const struct line_amount base[] = { { 10, 10 }, { 11, 3 }, { 15, 2 } },
				 now[] = { { 10, 1 }, { 11, 3 }, { 15, 2 } };

	assert_lines(base, N(base), now, N(now), (const uint32_t[]){ 0, 1, 2 });
}

static void one_of_each(void **state)
{
	const struct line_amount base[] = { { 0, 10 } }, now[] = { { 0, 1 } };

	assert_lines(base, 1, now, 1, (const uint32_t[]){ 0 });
	assert_lines((const struct line_amount[]){ { 3, 0 } }, 1, now, 1, (const uint32_t[]){ NONE });
}

/* Lines beyond any sense, of foreign files. */
static void far_lines(void **state)
{
	const struct line_amount base[] = { { 1, 1 }, { INT64_MAX, 5 } }, now[] = { { 1, 1 }, { INT64_MAX - 1, 5 } };

	assert_lines(base, N(base), now, N(now), (const uint32_t[]){ 0, 1 });
}

/* Sides of rows alone. */

static struct side *make_side(void)
{
	struct side *side = calloc(1, sizeof(*side));

	side->blocks = calloc(1, sizeof(*side->blocks));
	side->n_blocks = 1;
	side->blocks[0].amount = 100;
	return side;
}

static void add(struct side *side, enum row_kind kind, const char *text, int64_t line, double amount)
{
	uint32_t row;

	assert_int_equal(side__row(side, kind, text, strlen(text), line, &row), 0);
	side__cells(side, row)[0] += amount;
}

static void assert_pair(const struct side *base, const struct side *now, const char *text_now, const char *text_base)
{
	uint32_t *match = match__rows(base, now);

	assert_non_null(match);
	for (size_t i = 0; i < now->n; i++) {
		if (strcmp(now->rows[i].text, text_now))
			continue;
		assert_int_equal(match[i] == MATCH_NONE, !text_base);
		if (text_base)
			assert_string_equal(base->rows[match[i]].text, text_base);
	}
	free(match);
}

static void names(void **state)
{
	struct side *base = make_side(), *now = make_side();

	add(base, ROW_FUNCTION, "step (sim-1)", 0, 1);
	add(base, ROW_FUNCTION, "read (libc.so.6)", 0, 1);
	add(base, ROW_FUNCTION, "run (a.py)", 0, 1);
	add(base, ROW_FUNCTION, "run (b.py)", 0, 1);
	add(base, ROW_FUNCTION, "sort.constprop.0 (sim-1)", 0, 1);
	add(base, ROW_CATEGORY, "logging", 0, 1);
	add(now, ROW_FUNCTION, "step (sim-2)", 0, 1);
	add(now, ROW_FUNCTION, "read (libc.so.6)", 0, 1);
	add(now, ROW_FUNCTION, "run (c.py)", 0, 1);
	add(now, ROW_FUNCTION, "sort (sim-2)", 0, 1);
	add(now, ROW_FUNCTION, "logging", 0, 1);
	assert_int_equal(side__settle(base), 0);
	assert_int_equal(side__settle(now), 0);
	assert_pair(base, now, "step (sim-2)", "step (sim-1)");
	assert_pair(base, now, "read (libc.so.6)", "read (libc.so.6)");
	assert_pair(base, now, "run (c.py)", NULL);
	assert_pair(base, now, "sort (sim-2)", "sort.constprop.0 (sim-1)");
	assert_pair(base, now, "logging", NULL);
	side__free(base);
	side__free(now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_that_did_not_move),
		cmocka_unit_test(all_lines_moved),
		cmocka_unit_test(lines_were_put_in),
		cmocka_unit_test(lines_were_taken_out),
		cmocka_unit_test(a_line_that_changed),
		cmocka_unit_test(one_of_each),
		cmocka_unit_test(far_lines),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
