/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/demangle.h"
#include "stakeout/cleanup.h"

static void test_names(void **state)
{
	static const struct {
		const char *name, *wanted;
	} cases[] = {
		/* not mangled */
		{ "main", "main" },
		{ "", "" },
		{ "_start", "_start" },
		{ "_Zebra", "_Zebra" },
		{ "_Rest", "_Rest" },
		{ "_Default", "_Default" },
		{ "memcpy@@GLIBC_2.14", "memcpy" },
		{ "realpath@GLIBC_2.2.5", "realpath" },
		{ "memcpy@plt", "memcpy@plt" },
		{ "@odd", "@odd" },
		{ "foo.part.0", "foo.part.0" },
		/* C++ */
		{ "_ZN2ns1fEi", "ns::f" },
		{ "_ZN2ns1fIiEEvT_", "ns::f<int>" },
		{ "_ZNKSt8functionIFviEEclEi", "std::function<void (int)>::operator()" },
		{ "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()" },
		{ "_ZN12_GLOBAL__N_11gEv", "(anonymous namespace)::g" },
		{ "_ZN1AC2Ei", "A::A" },
		{ "_ZTv0_n24_N1A1fEv", "virtual thunk to A::f()" },
		{ "_ZN2ns1fEi@@LIB_1.0", "ns::f" },
		{ "_ZN2ns1fEi@plt", "ns::f@plt" },
		{ "_ZN2ns1fEi.cold", "ns::f [clone .cold]" },
		{ "_ZN2ns1fEi.part.0.cold", "ns::f [clone .part.0] [clone .cold]" },
		{ "_ZN2ns1fEi.isra.0@plt", "ns::f [clone .isra.0]@plt" },
		{ "_ZN2ns1fEi.llvm.1234567890", "ns::f [clone .llvm.1234567890]" },
		{ "_ZN2ns1fEi.", "ns::f [clone .]" },
		/* Rust: legacy with its hash, dots inside the name, v0 */
		{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad" },
		{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.77",
		  "core::fmt::Formatter::pad [clone .llvm.77]" },
		{ "_ZN28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE", "{{closure}}" },
		{ "_ZN8foo..bar3baz17h0123456789abcdefE.cold", "foo::bar::baz [clone .cold]" },
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_RNvC6_123foo3bar.llvm.9", "123foo::bar [clone .llvm.9]" },
		/* D */
		{ "_Dmain", "D main" },
		{ "_D8demangle4testFaZv", "demangle.test" },
		{ "_D8demangle4testFaZv.cold", "demangle.test [clone .cold]" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *found = demangle(cases[i].name);

		assert_non_null(found);
		if (strcmp(found, cases[i].wanted) != 0)
			fail_msg("%s: %s, not %s", cases[i].name, found, cases[i].wanted);
	}
}

/* Each argument doubles the one before it: the whole would be a gigabyte, and nobody waits for it. */
static void test_long_template_is_cut(void **state)
{
	char name[1024] = "_ZN1AI";
	_cleanup_free_ char *found = NULL;
	size_t at = strlen(name);

	/* A<pair<x, x>, pair<that, that>, …>::f */
	at += (size_t)sprintf(name + at, "4pairI4xxxxS1_E");
	for (unsigned i = 2; i < 28; i++)
		at += (size_t)sprintf(name + at, "S0_IS%c_S%c_E", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i],
				      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i]);
	sprintf(name + at, "E1fEv");
	found = demangle(name);
	assert_non_null(found);
	assert_int_equal(strlen(found), 4096);
	assert_string_equal(found + 4093, "...");
	assert_int_equal(strncmp(found, "A<pair<xxxx, xxxx>, ", 20), 0);
}

static void test_long_plain_name_is_cut(void **state)
{
	char name[6000];
	_cleanup_free_ char *found = NULL;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	found = demangle(name);
	assert_non_null(found);
	assert_int_equal(strlen(found), 4096);
	assert_string_equal(found + 4093, "...");
	memset(name, 'n', 4096);
	name[4096] = '\0';
	free(found);
	found = demangle(name);
	assert_string_equal(found, name);
}

/* Names made to recurse, each in its language: none may exhaust the stack, and all come back. */
static void test_deep_nesting(void **state)
{
	static const struct {
		const char *begin;
		char repeated;
	} cases[] = { { "_Z1f", 'P' }, { "_Z1fIX", 'n' }, { "_RN", 'v' }, { "_D1aF", 'P' }, { "_D1aF", 'A' } };
	size_t size = 200000;
	_cleanup_free_ char *name = malloc(size);

	assert_non_null(name);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *found = NULL;

		memset(name, cases[i].repeated, size - 1);
		memcpy(name, cases[i].begin, strlen(cases[i].begin));
		name[size - 1] = '\0';
		found = demangle(name);
		assert_non_null(found);
		assert_true(strlen(found) <= 4096);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_template_is_cut),
		cmocka_unit_test(test_long_plain_name_is_cut),
		cmocka_unit_test(test_deep_nesting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
