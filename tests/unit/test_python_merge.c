// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stacks are written as text, leaf first: native frames as letters, the interpreter's loop as '*', Python frames as
 * digits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/python/python_merge.h"

static bool has_lock = true, innermost_known, within, loop_known;
static uint32_t empty_calls;
static size_t call_at;
static size_t missing; /* of the latest one */

/* python: digits, each first frame of a call of the loop followed by '|'. */
static void expect(const char *native, const char *python, bool native_cut, bool python_cut, const char *want)
{
	uint8_t loops[64], entries[64];
	char digits[64], got[130];
	struct merge_input in = { .loops = loops,
				  .entries = entries,
				  .native_cut = native_cut,
				  .python_cut = python_cut,
				  .innermost_known = innermost_known,
				  .within = within,
				  .call_at = call_at,
				  .empty_calls = empty_calls,
				  .loop_known = loop_known,
				  .has_lock = has_lock };
	struct merged_frame out[130];
	size_t n;

	in.n_native = strlen(native);
	for (size_t i = 0; i < in.n_native; i++)
		loops[i] = native[i] == '*';
	for (; *python; python++) {
		if (*python == '|') {
			entries[in.n_python - 1] = 1;
		} else {
			entries[in.n_python] = 0;
			digits[in.n_python++] = *python;
		}
	}
	in.interpreter = strcspn(native, "P");
	missing = python_merge__missing(&in);
	n = python_merge(&in, out);
	assert_true(n <= in.n_native + in.n_python + 1);
	for (size_t i = 0; i < n; i++)
		got[i] = out[i].kind == MERGED_NATIVE   ? native[out[i].index]
			 : out[i].kind == MERGED_PYTHON ? digits[out[i].index]
							: '!';
	got[n] = '\0';
	assert_string_equal(got, want);
}

static void test_one_call(void **state)
{
	expect("ab*cd", "123|", false, false, "ab123cd");
	expect("*", "1|", false, false, "1");
	expect("abc", "", false, false, "abc");
	expect("", "", false, false, "");
}

/* Python, C, Python: each call's frames where the call is. */
static void test_nested_calls(void **state)
{
	expect("a*b*c*d", "1|23|4|", false, false, "a1b23c4d");
	/* Before 3.11 each Python frame is a call of its own. */
	expect("*x*x*m", "1|2|3|", false, false, "1x2x3m");
}

/* A call that has no frame yet is the innermost one: outer frames keep their places. */
static void test_call_without_a_frame_yet(void **state)
{
	expect("a*b*c*d", "23|4|", false, false, "ab23c4d");
	expect("*b*", "1|", false, false, "b1");
	assert_int_equal(missing, 0);
	/* A thread's first call. */
	expect("*m", "", false, false, "*m");
	expect("*", "", false, false, "*");
	assert_int_equal(missing, 0);
	/* Something else than a call that begins or ends. */
	expect("a*b*c*d", "4|", false, false, "a*b*c4d");
	assert_int_equal(missing, 1);
	has_lock = false;
	expect("a*b*c*d", "23|4|", false, false, "a*b23c4d");
	assert_int_equal(missing, 1);
	expect("a*b*c*d", "", false, false, "a*b*c*d");
	assert_int_equal(missing, 3);
	has_lock = true;
}

/* Calls whose last frame has gone, and which free what it held: no frame is missing. */
static void test_empty_calls(void **state)
{
	empty_calls = 1;
	expect("a*b*c*d", "23|4|", false, false, "ab23c4d");
	expect("a*b*c*d", "4|", false, false, "abc4d");
	assert_int_equal(missing, 0);
	has_lock = false;
	expect("a*b*c*d", "23|4|", false, false, "ab23c4d");
	assert_int_equal(missing, 0);
	expect("a*b*c*d", "4|", false, false, "a*b*c4d");
	assert_int_equal(missing, 1);
	has_lock = true;
	empty_calls = 0;
}

/* Frames whose call has returned, or whose native frame is not there: in front of the innermost one. */
static void test_frames_without_a_call(void **state)
{
	expect("a*b", "1|2|", false, false, "a12b");
	expect("ab", "1|", false, false, "ab1");
}

/* The caller has frames of its own, which were not found. */
static void test_outer_frames_missing(void **state)
{
	innermost_known = true;
	expect("a*b*c*d*e", "1|23|", false, false, "a1b23c*d*e");
	assert_int_equal(missing, 1);
	within = true;
	expect("a*b*c*d", "1|23|", false, false, "a1b23c*d");
	assert_int_equal(missing, 1);
	expect("a*b*d", "1|23|", false, false, "a1b23d");
	assert_int_equal(missing, 0);
	innermost_known = within = false;
}

/*
 * It is known which call the innermost frames belong to: one that begins or ends is told from an outer one without
 * frames.
 */
static void test_innermost_call_known(void **state)
{
	innermost_known = true;
	call_at = 2;
	expect("a*b*c", "12|", false, false, "a12b*c");
	assert_int_equal(missing, 1);
	expect("a*b*c", "1|2|", false, false, "a1b2c");
	assert_int_equal(missing, 0);
	call_at = 4;
	expect("a*b*c", "12|", false, false, "ab12c");
	assert_int_equal(missing, 0);
	expect("a*b*c*d", "12|", false, false, "ab12c*d");
	assert_int_equal(missing, 1);
	/* No call of the loop is there: it tells nothing. */
	call_at = 3;
	expect("a*b*c", "12|", false, false, "ab12c");
	call_at = 9;
	expect("a*b*c", "12|", false, false, "ab12c");
	assert_int_equal(missing, 0);
	call_at = 0;
	innermost_known = false;
}

static void test_native_cut(void **state)
{
	expect("a*b*c", "1|2|34|5|", true, false, "a1b2c!345");
	expect("a*b*c", "1|", true, false, "a1b*c!");
	assert_int_equal(missing, 0);
	expect("ab", "", true, false, "ab!");
}

static void test_python_cut(void **state)
{
	expect("a*b*c*d", "1|2", false, true, "a1b2c*d");
	assert_int_equal(missing, 0);
	expect("a*b", "", false, true, "a*b");
}

static void test_interpreter_without_names(void **state)
{
	expect("abPPc", "1|23|", false, false, "ab123PPc");
	expect("ab", "1|", false, false, "ab1");
	expect("abPc", "1|", true, false, "ab1Pc!");
	/* It has a loop, which lies beyond the cut. */
	loop_known = true;
	expect("abPc", "1|23|", true, false, "abPc!123");
	expect("abPc", "1|", false, false, "ab1Pc");
	loop_known = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_call),
		cmocka_unit_test(test_nested_calls),
		cmocka_unit_test(test_call_without_a_frame_yet),
		cmocka_unit_test(test_empty_calls),
		cmocka_unit_test(test_frames_without_a_call),
		cmocka_unit_test(test_outer_frames_missing),
		cmocka_unit_test(test_innermost_call_known),
		cmocka_unit_test(test_native_cut),
		cmocka_unit_test(test_python_cut),
		cmocka_unit_test(test_interpreter_without_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
