// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

static bool out_of_memory;

static void *calloc_or_fail(size_t n, size_t size)
{
	return out_of_memory ? NULL : calloc(n, size);
}

#define calloc calloc_or_fail
#include "daemon/os/u64_table.h"
#undef calloc

static void expect(const struct u64_table *t, uint64_t key, uint32_t want)
{
	uint32_t value = 0xdeadbeef;

	assert_true(u64_table__get(t, key, &value));
	assert_int_equal(value, want);
}

static void expect_absent(const struct u64_table *t, uint64_t key)
{
	uint32_t value = 0xdeadbeef;

	assert_false(u64_table__get(t, key, &value));
	assert_int_equal(value, 0xdeadbeef);
}

static void test_empty(void **state)
{
	struct u64_table t = { 0 };

	expect_absent(&t, 0);
	expect_absent(&t, UINT64_MAX);
	u64_table__release(&t);
	assert_null(t.entries);
}

static void test_set_and_replace(void **state)
{
	struct u64_table t = { 0 };

	assert_int_equal(u64_table__set(&t, 0, 7), 0);
	assert_int_equal(u64_table__set(&t, UINT64_MAX, 0), 0);
	expect(&t, 0, 7);
	expect(&t, UINT64_MAX, 0);
	expect_absent(&t, 1);
	assert_int_equal(u64_table__set(&t, 0, 8), 0);
	assert_int_equal(t.n, 2);
	expect(&t, 0, 8);
	u64_table__release(&t);
	expect_absent(&t, 0);
	assert_int_equal(t.n, 0);
}

/* Keys in a row, keys that differ in their high halves only, and keys made to begin in one place of the table. */
static void test_many(void **state)
{
	static const unsigned shifts[] = { 0, 32, 52 };

	for (size_t s = 0; s < sizeof(shifts) / sizeof(shifts[0]); s++) {
		struct u64_table t = { 0 };

		for (uint32_t i = 0; i < 4096; i++)
			assert_int_equal(u64_table__set(&t, (uint64_t)i << shifts[s], i), 0);
		assert_int_equal(t.n, 4096);
		assert_true(t.capacity >= 2 * t.n);
		for (uint32_t i = 0; i < 4096; i++)
			expect(&t, (uint64_t)i << shifts[s], i);
		expect_absent(&t, (4096ull << shifts[s]) + 1);
		u64_table__release(&t);
	}
}

static void test_collisions(void **state)
{
	struct u64_table t = { 0 };
	uint64_t keys[20];
	size_t n = 0, home;

	assert_int_equal(u64_table__set(&t, 1, 1), 0);
	home = u64_table__place(&t, 1);
	/* Into the table's last free places too, so that probing passes its end. */
	for (uint64_t key = 2; n < 20; key++) {
		struct u64_table probe = { .entries = t.entries, .capacity = t.capacity };
		uint64_t h = key * 0x9e3779b97f4a7c15ull;

		if (((h ^ h >> 32) & (probe.capacity - 1)) == (n < 10 ? home : t.capacity - 1))
			keys[n++] = key;
	}
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(u64_table__set(&t, keys[i], i + 100), 0);
	assert_int_equal(t.capacity, 64);
	for (uint32_t i = 0; i < n; i++)
		expect(&t, keys[i], i + 100);
	expect(&t, 1, 1);
	u64_table__release(&t);
}

static void test_out_of_memory(void **state)
{
	struct u64_table t = { 0 };

	out_of_memory = true;
	assert_int_equal(u64_table__set(&t, 1, 1), -ENOMEM);
	assert_null(t.entries);
	out_of_memory = false;
	for (uint32_t i = 0; i < 32; i++)
		assert_int_equal(u64_table__set(&t, i, i), 0);
	out_of_memory = true;
	assert_int_equal(u64_table__set(&t, 32, 32), -ENOMEM);
	out_of_memory = false;
	assert_int_equal(t.n, 32);
	expect_absent(&t, 32);
	for (uint32_t i = 0; i < 32; i++)
		expect(&t, i, i);
	u64_table__release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),         cmocka_unit_test(test_set_and_replace),
		cmocka_unit_test(test_many),          cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
