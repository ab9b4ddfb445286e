// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/summary/summary.h"
#include "profile/folded_read.h"

static const struct summary_style plain = { .page = true, .top = 10 };

/* The page of folded stacks. */
static char *page(const char *folded, const struct summary_style *style)
{
	struct profile *profile = NULL;
	struct category_rules *rules = NULL;
	struct so_error err = { .text = "" };
	struct summary_request request = { .style = *style };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_int_equal(folded_read(folded, strlen(folded), &profile, &err), 0);
	assert_int_equal(category_rules__load(NULL, &rules, &err), 0);
	request.rules = rules;
	assert_int_equal(summary__print(profile, NULL, &request, out, &err), 0);
	fclose(out);
	category_rules__free(rules);
	profile__free(profile);
	return text;
}

static void assert_has(const char *folded, const struct summary_style *style, const char *wanted, bool has)
{
	char *text = page(folded, style);

	if (!strstr(text, wanted) == has)
		fail_msg("\"%s\" is %s\n%s", wanted, has ? "not in:" : "in:", text);
	free(text);
}

#define INTERPRETED                                                                 \
	"python3;[python3.11];<module> (own.py:9);hot (own.py:4) 47\n"              \
	"python3;[python3.11];<module> (own.py:9);hot (own.py:4);[python3.11] 38\n" \
	"python3;[python3.11];<module> (own.py:10);cold (own.py:6);[libc.so.6] 15\n"

/* What a line's time goes into are several categories; the line is what leads to it. */
static void one_line_is_named(void **state)
{
	static const char begin[] = "largest: hot (own.py:4), 85.0 % [";
	char *text = page(INTERPRETED, &plain);

	assert_memory_equal(text, begin, strlen(begin));
	free(text);
	assert_has(INTERPRETED, &plain, "\n  how sure: within the interval in 95 of 100 cases, by 100 samples\n", true);
	assert_has(INTERPRETED, &plain, "\n  look at: hot (own.py:4); its time is in hot (own.py) 85.0 %\n", true);
}

static void code_of_the_interpreter_is_the_functions(void **state)
{
	struct summary_style native = plain;

	assert_has(INTERPRETED, &plain, "python3.11", false);
	native.native_interpreter = true;
	assert_has(INTERPRETED, &native, " 38.0 %  [29.1, 47.8]     100.0 %  [python3.11]\n", true);
	/* A stack of nothing else is still there, and PyTorch's frames are its own. */
	assert_has("python3;[python3.11];[libpython3.11.so.1.0] 5\n", &plain,
		   "100.0 %  [56.6, 100.0]    100.0 %  Python interpreter\n", true);
	assert_has("python3;<module> (own.py:1);[libtorch_cpu.so] 5\n", &plain, "  [libtorch_cpu.so]\n", true);
}

/* Library code counts for the line that calls it. */
static void own_lines_before_libraries(void **state)
{
	static const char logging[] = "python3;main (own.py:3);[libx.so];[libx.so] 30\npython3;main (own.py:4) 20\n";

	assert_has(logging, &plain,
		   "\nYour own lines, each with all that it calls in others' code\n"
		   "  share  [95 % interval]      CPU s  function (file:line)\n"
		   " 60.0 %  [46.2, 72.4]            -  main (own.py:3)\n"
		   " 40.0 %  [27.6, 53.8]            -  main (own.py:4)\n",
		   true);
}

/* Nobody wrote a frame that could not be read. */
static void a_frame_without_a_file_is_no_line(void **state)
{
	assert_has("python3;main (own.py:3);[python:stale] 9\n", &plain, "largest: main (own.py:3), 100.0 % [", true);
}

static void tables_stand_in_their_order(void **state)
{
	static const char *const titles[] = {
		"largest: ",         "\n\nYour own lines", "\n\nPython functions",       "\n\nActivities",
		"\n\nFunctions, by", "\n\nMechanisms",     "\n\nWhat this was made of\n"
	};
	char *text = page(INTERPRETED, &plain), *at = text;

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		at = strstr(at, titles[i]);
		if (!at)
			fail_msg("\"%s\" is not in its place in:\n%s", titles[i], text);
	}
	assert_null(strchr(text, '\x1b'));
	free(text);
}

static void rows_and_terminals(void **state)
{
	static const char name[] = "x;a_function_whose_name_is_longer_than_the_terminal_is_wide (own.py:123) 100\n";
	struct summary_style style = { .page = true, .top = 1, .color = true, .columns = 70 };

	assert_has(INTERPRETED, &style, "\n 85.0 %  [76.7, 90.7]            -  hot (own.py:4)\nand 1 more line\n",
		   true);
	assert_has(INTERPRETED, &style, "\n\n\x1b[1mYour own lines", true);
	assert_has(name, &style, "  -  a_function_whose_name_i…own.py:123)\n", true);
}

static void short_lived_processes_are_one_row(void **state)
{
	static const char loop[] = "make-1/1;main 95\ngcc-2/2;main 1\ngcc-3/3;main 2\ngcc-4/4;main 1\nld-5/5;main 1\n";
	struct summary_style details = plain;

	assert_has(loop, &plain, "  gcc (3 processes)\n", true);
	assert_has(loop, &plain, "  gcc-2\n", false);
	assert_has(loop, &plain, "  ld-5\n", true);
	details.details = true;
	assert_has(loop, &details, "  gcc-2\n", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line_is_named),
		cmocka_unit_test(code_of_the_interpreter_is_the_functions),
		cmocka_unit_test(own_lines_before_libraries),
		cmocka_unit_test(a_frame_without_a_file_is_no_line),
		cmocka_unit_test(tables_stand_in_their_order),
		cmocka_unit_test(rows_and_terminals),
		cmocka_unit_test(short_lived_processes_are_one_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
