// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python_functions.h"

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
	assert_int_equal(python_functions__count(functions), 5);
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
	assert_int_equal(python_functions__count(functions), 20000);
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
	assert_in_range(n, 60, 70);
	assert_string_equal(first->name, "first");
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_once),
		cmocka_unit_test(test_addresses_stay),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
