// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_functions.c"

static void test_each_once(void **state)
{
	_cleanup_(python_functions) struct python_functions *functions = NULL;
	const struct python_function *f, *first;

	assert_int_equal(python_functions__new(&functions), 0);
	first = python_functions__get(functions, "step", "env.py", 10);
	assert_non_null(first);
	assert_string_equal(first->name, "step");
	assert_string_equal(first->filename, "env.py");
	assert_int_equal(first->first_line, 10);
	assert_ptr_equal(python_functions__get(functions, "step", "env.py", 10), first);
	/* Each part tells functions apart, and so does where one ends and the next begins. */
	assert_ptr_not_equal(python_functions__get(functions, "step", "env.py", 11), first);
	assert_ptr_not_equal(python_functions__get(functions, "step", "env2.py", 10), first);
	assert_ptr_not_equal(python_functions__get(functions, "stepe", "nv.py", 10), first);
	f = python_functions__get(functions, "", "", 0);
	assert_string_equal(f->name, "");
	assert_string_equal(f->filename, "");
	assert_int_equal(functions->n, 5);
}

/* Addresses stay while the table grows. */
static void test_addresses_stay(void **state)
{
	_cleanup_(python_functions) struct python_functions *functions = NULL;
	static const struct python_function *all[20000];
	char name[32];

	assert_int_equal(python_functions__new(&functions), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 20000; i++) {
			const struct python_function *f;

			snprintf(name, sizeof(name), "function_%d", i);
			f = python_functions__get(functions, name, "file.py", i);
			assert_non_null(f);
			assert_string_equal(f->name, name);
			if (round)
				assert_ptr_equal(f, all[i]);
			all[i] = f;
		}
	}
	assert_int_equal(functions->n, 20000);
}

/* Names without end: refused at some point, and what is there stays. */
static void test_bounded(void **state)
{
	_cleanup_(python_functions) struct python_functions *functions = NULL;
	const struct python_function *first;
	char *name = malloc(1 << 20);
	int n = 0;

	assert_non_null(name);
	assert_int_equal(python_functions__new(&functions), 0);
	first = python_functions__get(functions, "first", "file.py", 1);
	memset(name, 'x', 1 << 20);
	name[(1 << 20) - 1] = '\0';
	while (n < 200 && python_functions__get(functions, name, "file.py", n))
		n++;
	/* Each is held twice: as a function, and as what it is known by. */
	assert_in_range(n, 8, 9);
	assert_ptr_equal(python_functions__get(functions, "first", "file.py", 1), first);
	assert_string_equal(first->name, "first");
	free(name);
}

/* Fills a table up to where the next one is begun, and returns how many functions that took. */
static unsigned fill(struct python_functions **functions, int line)
{
	struct python_functions *before = *functions;
	unsigned n = 0;
	char name[4096];

	memset(name, 'y', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	while (!python_functions__turn(functions) && n < 10000) {
		assert_non_null(python_functions__get(*functions, name, "file.py", line + (int)n));
		n++;
	}
	assert_true(n == 10000 || before != *functions);
	return n;
}

/* A table that is half full is followed by another; it stays as long as somebody refers to it. */
static void test_turn(void **state)
{
	_cleanup_(python_functions) struct python_functions *functions = NULL;
	struct python_functions *held[PYTHON_FUNCTIONS_TABLES] = { 0 };
	const struct python_function *first;
	unsigned n;

	assert_int_equal(python_functions__all_bytes(), 0);
	assert_int_equal(python_functions__new(&functions), 0);
	assert_false(python_functions__turn(&functions));
	first = python_functions__get(functions, "first", "file.py", 1);
	held[0] = python_functions__ref(functions);
	n = fill(&functions, 2);
	assert_in_range(n, 1000, 1050);
	assert_ptr_not_equal(functions, held[0]);
	assert_int_equal(functions->n, 0);
	assert_string_equal(first->name, "first");
	assert_ptr_not_equal(python_functions__get(functions, "first", "file.py", 1), first);
	assert_in_range(python_functions__all_bytes(), 8u << 20, 9u << 20);

	/* As many as are held; then the newest fills up, and no next one is begun. */
	for (unsigned i = 1; i < PYTHON_FUNCTIONS_TABLES - 1; i++) {
		held[i] = python_functions__ref(functions);
		assert_in_range(fill(&functions, 2), 1000, 1050);
	}
	for (int i = 0; python_functions__get(functions, "a function", "file.py", i); i++)
		;
	assert_false(python_functions__turn(&functions));
	assert_in_range(python_functions__all_bytes(), 136u << 20, 138u << 20);

	/* One goes: there is room again. */
	python_functions__unref(held[1]);
	assert_in_range(python_functions__all_bytes(), 128u << 20, 130u << 20);
	assert_true(python_functions__turn(&functions));
	assert_non_null(python_functions__get(functions, "a function", "file.py", 1));
	for (unsigned i = 0; i < PYTHON_FUNCTIONS_TABLES - 1; i++) {
		if (i != 1)
			python_functions__unref(held[i]);
	}
	assert_in_range(python_functions__all_bytes(), 1, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_once),
		cmocka_unit_test(test_addresses_stay),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
