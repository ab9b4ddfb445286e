// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/kernel_names.h"

static struct kernel_names *new_names(void)
{
	struct kernel_names *names = NULL;

	assert_int_equal(kernel_names__new(&names), 0);
	return names;
}

static void tell(struct kernel_names *names, uint32_t tgid, uint64_t handle, uint64_t other, const char *name)
{
	struct so_cuda_name record = { .tgid = tgid, .handle = handle, .other = other };

	assert_true(strlen(name) < sizeof(record.name));
	memcpy(record.name, name, strlen(name));
	assert_int_equal(kernel_names__add(names, &record), 0);
}

/* name: NULL when none is to be known. */
static void expect(const struct kernel_names *names, uint32_t tgid, uint64_t handle, const char *name,
		   uint64_t address)
{
	struct kernel_name found;

	kernel_names__find(names, tgid, handle, &found);
	if (name) {
		assert_non_null(found.name);
		assert_string_equal(found.name, name);
	} else {
		assert_null(found.name);
	}
	assert_false(found.cut);
	assert_int_equal(found.address, address);
}

static void test_told(void **state)
{
	_cleanup_(kernel_names) struct kernel_names *names = new_names();

	expect(names, 1, 0x10, NULL, 0x10);
	tell(names, 1, 0x10, 0, "_Z3addPf");
	tell(names, 1, 0x20, 0, "_Z3subPf");
	tell(names, 2, 0x10, 0, "_Z3mulPf");
	expect(names, 1, 0x10, "_Z3addPf", 0x10);
	expect(names, 1, 0x20, "_Z3subPf", 0x20);
	expect(names, 2, 0x10, "_Z3mulPf", 0x10);
	expect(names, 2, 0x20, NULL, 0x20);
	expect(names, 3, 0x10, NULL, 0x10);
	/* Used again, and then for something without a name. */
	tell(names, 1, 0x10, 0, "_Z3divPf");
	expect(names, 1, 0x10, "_Z3divPf", 0x10);
	tell(names, 1, 0x10, 0, "");
	expect(names, 1, 0x10, NULL, 0x10);
	tell(names, 1, 0x99, 0, "");
	expect(names, 1, 0x99, NULL, 0x99);
	expect(names, 1, 0x20, "_Z3subPf", 0x20);
	kernel_names__forget(names, 1);
	expect(names, 1, 0x20, NULL, 0x20);
	expect(names, 2, 0x10, "_Z3mulPf", 0x10);
	kernel_names__forget(names, 1);
	kernel_names__forget(names, 77);
}

static void test_aliases(void **state)
{
	_cleanup_(kernel_names) struct kernel_names *names = new_names();

	tell(names, 1, 0x10, 0, "_Z3addPf");
	tell(names, 1, 0x11, 0x10, "");
	expect(names, 1, 0x11, "_Z3addPf", 0x10);
	/* The name of the other may come later, or never. */
	tell(names, 1, 0x21, 0x20, "");
	expect(names, 1, 0x21, NULL, 0x20);
	tell(names, 1, 0x20, 0, "_Z3subPf");
	expect(names, 1, 0x21, "_Z3subPf", 0x20);
	/* A name of its own goes before. */
	tell(names, 1, 0x21, 0x10, "_Z3mulPf");
	expect(names, 1, 0x21, "_Z3mulPf", 0x21);
	/* Used again for another kernel's. */
	tell(names, 1, 0x21, 0x10, "");
	expect(names, 1, 0x21, "_Z3addPf", 0x10);
	/* Circles and long chains end. */
	tell(names, 1, 0x31, 0x32, "");
	tell(names, 1, 0x32, 0x31, "");
	expect(names, 1, 0x31, NULL, 0x31);
	tell(names, 1, 0x33, 0x33, "");
	expect(names, 1, 0x33, NULL, 0x33);
	tell(names, 1, 0x40, 0, "end");
	for (uint64_t i = 1; i <= KERNEL_NAMES_MAX_CHAIN + 1; i++)
		tell(names, 1, 0x40 + i, 0x40 + i - 1, "");
	expect(names, 1, 0x40 + KERNEL_NAMES_MAX_CHAIN, "end", 0x40);
	expect(names, 1, 0x40 + KERNEL_NAMES_MAX_CHAIN + 1, NULL, 0x41);
}

static void test_cut(void **state)
{
	_cleanup_(kernel_names) struct kernel_names *names = new_names();
	struct so_cuda_name record = { .tgid = 1, .handle = 0x10 };
	struct kernel_name found;

	/* Without a terminating zero. */
	memset(record.name, 'n', sizeof(record.name));
	assert_int_equal(kernel_names__add(names, &record), 0);
	kernel_names__find(names, 1, 0x10, &found);
	assert_int_equal(strlen(found.name), sizeof(record.name));
	assert_true(found.cut);
	/* As the kernel's string functions cut it. */
	record.handle = 0x20;
	record.name[sizeof(record.name) - 1] = '\0';
	assert_int_equal(kernel_names__add(names, &record), 0);
	kernel_names__find(names, 1, 0x20, &found);
	assert_true(found.cut);
	record.handle = 0x30;
	record.name[sizeof(record.name) - 2] = '\0';
	assert_int_equal(kernel_names__add(names, &record), 0);
	kernel_names__find(names, 1, 0x30, &found);
	assert_int_equal(strlen(found.name), sizeof(record.name) - 2);
	assert_false(found.cut);
}

static json_int_t forgotten(void)
{
	json_t *all = limits__json(), *one;
	json_int_t n = -1;
	size_t i;

	json_array_foreach (all, i, one)
		if (!strcmp(json_string_value(json_object_get(one, "name")), "kernel_names_of_a_process"))
			n = json_integer_value(json_object_get(one, "hit"));
	json_decref(all);
	return n;
}

/* Three times what one process may tell; among it a handle that is told again and again. */
static void test_bounded(void **state)
{
	_cleanup_(kernel_names) struct kernel_names *names = new_names();
	const uint64_t n = 3 * KERNEL_NAMES_MAX;
	char name[32];

	tell(names, 2, 1, 0, "other process");
	for (uint64_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "k%d", (int)i);
		tell(names, 1, i * 8, 0, name);
		tell(names, 1, i * 8, 0, name);
	}
	for (uint64_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "k%d", (int)i);
		expect(names, 1, i * 8, i < n - KERNEL_NAMES_MAX ? NULL : name, i * 8);
	}
	assert_int_equal(forgotten(), 2 * KERNEL_NAMES_MAX);
	/* A handle that was dropped comes back, and is the youngest. */
	tell(names, 1, 0, 0, "back");
	expect(names, 1, 0, "back", 0);
	expect(names, 1, (n - KERNEL_NAMES_MAX) * 8, NULL, (n - KERNEL_NAMES_MAX) * 8);
	expect(names, 2, 1, "other process", 1);
	/* The child goes on where the parent is. */
	assert_int_equal(kernel_names__fork(names, 1, 3), 0);
	tell(names, 3, 1, 0, "child's");
	expect(names, 3, (n - KERNEL_NAMES_MAX + 1) * 8, NULL, (n - KERNEL_NAMES_MAX + 1) * 8);
	snprintf(name, sizeof(name), "k%d", (int)(n - KERNEL_NAMES_MAX + 1));
	expect(names, 1, (n - KERNEL_NAMES_MAX + 1) * 8, name, (n - KERNEL_NAMES_MAX + 1) * 8);
}

static void test_fork(void **state)
{
	_cleanup_(kernel_names) struct kernel_names *names = new_names();

	tell(names, 1, 0x10, 0, "_Z3addPf");
	tell(names, 1, 0x11, 0x10, "");
	tell(names, 2, 0x50, 0, "of an earlier process 2");
	assert_int_equal(kernel_names__fork(names, 1, 2), 0);
	assert_int_equal(kernel_names__fork(names, 1, 1), 0);
	expect(names, 2, 0x50, NULL, 0x50);
	tell(names, 1, 0x10, 0, "_Z3subPf");
	expect(names, 2, 0x11, "_Z3addPf", 0x10);
	expect(names, 1, 0x11, "_Z3subPf", 0x10);
	kernel_names__forget(names, 1);
	expect(names, 2, 0x10, "_Z3addPf", 0x10);
	/* Of a parent that told nothing. */
	assert_int_equal(kernel_names__fork(names, 9, 2), 0);
	expect(names, 2, 0x10, NULL, 0x10);
}

static void test_many_processes(void **state)
{
	_cleanup_(kernel_names) struct kernel_names *names = new_names();

	for (uint32_t tgid = 1; tgid <= 10000; tgid++) {
		tell(names, tgid, tgid, 0, "k");
		if (tgid > 3)
			kernel_names__forget(names, tgid - 3);
	}
	for (uint32_t tgid = 1; tgid <= 10000; tgid++)
		expect(names, tgid, tgid, tgid > 9997 ? "k" : NULL, tgid);
}

static void test_readable(void **state)
{
	static const struct {
		const char *symbol, *wanted;
	} cases[] = {
		/* Kernels, and their host functions: nvcc 13.0 */
		{ "_Z3addPf", "add(float*)" },
		{ "_ZL4saddPf", "sadd(float*)" },
		{ "_Z4taddIfEvPT_i", "void tadd<float>(float*, int)" },
		{ "_ZN2nsL1kIiLi3EEEvPT_", "void ns::k<int, 3>(int*)" },
		{ "_ZN36_GLOBAL__N__40b00b9a_4_a_cu__Z3addPf4anonEPi", "(anonymous namespace)::anon(int*)" },
		{ "_Z5withfIZ4mainEUliE_EvT_Pi",
		  "void withf<main::{lambda(int)#1}>(main::{lambda(int)#1}, int*)" },
		{ "_Z4takePFviE", "take(void (*)(int))" },
		{ "ckernel", "ckernel" },
		{ "", "" },
		{ "_Z", "_Z" },
		{ "_Z9", "_Z9" },
		/* nvcc's stubs */
		{ "__device_stub__Z3addPf", "add(float*)" },
		{ "_Z22__device_stub__Z3addPfPf", "add(float*)" },
		{ "_Z21__device_stub__Z2ckPiPi", "ck(int*)" },
		{ "_ZL23__device_stub__Z4saddPfPf", "sadd(float*)" },
		{ "_ZL29__device_stub__Z4taddIfEvPT_iPfi", "void tadd<float>(float*, int)" },
		{ "_ZL34__device_stub__ZN2ns1kIiLi3EEEvPT_Pi", "void ns::k<int, 3>(int*)" },
		{ "_Z63__device_stub__ZN36_GLOBAL__N__40b00b9a_4_a_cu__Z3addPf4anonEPiPi",
		  "(anonymous namespace)::anon(int*)" },
		{ "_ZN2nsL24__wrapper__device_stub_kIiLi3EEEvRPT_", "void ns::k<int, 3>(int*&)" },
		{ "_Z27__wrapper__device_stub_taddIfEvRPT_Ri", "void tadd<float>(float*&, int&)" },
		/* clang's */
		{ "__device_stub__ckernel", "ckernel" },
		{ "__device_stub__Zoo", "Zoo" },
		{ "_Z18__device_stub__addPf", "add(float*)" },
		{ "_ZN2ns23__device_stub__nskernelEv", "ns::nskernel()" },
		{ "_ZN2n223__device_stub__nskernelEv", "n2::nskernel()" },
		{ "_Z25__device_stub__kernelfuncIiEvv", "void kernelfunc<int>()" },
		/* No stub's after all, or not one that can be read */
		{ "__device_stub__", "__device_stub__" },
		{ "_Z15__device_stub__v", "__device_stub__()" },
		{ "_Z99__device_stub__Z3addPfPf", "_Z99__device_stub__Z3addPfPf" },
		{ "__device_stub__Z3ad", "_Z3ad" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_free_ char *found = kernel_names__readable(cases[i].symbol, false);

		assert_non_null(found);
		if (strcmp(found, cases[i].wanted) != 0)
			fail_msg("%s: %s, not %s", cases[i].symbol, found, cases[i].wanted);
	}
}

static void test_readable_cut(void **state)
{
	_cleanup_free_ char *whole = kernel_names__readable("_Z3addPf", true);
	_cleanup_free_ char *cut = kernel_names__readable("_ZN2ns17a_long_one_tha", true);

	assert_string_equal(whole, "add(float*)");
	assert_string_equal(cut, "_ZN2ns17a_long_one_tha...");
}

/* Symbols of hostile files: long, and full of what looks like stubs. */
static void test_hostile(void **state)
{
	static const char *const parts[] = { "22__device_stub__Z3addPf", "__device_stub_", "_Z", "(", "1f" };
	size_t size = 60000;
	_cleanup_free_ char *symbol = malloc(size);

	assert_non_null(symbol);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		_cleanup_free_ char *found = NULL;
		size_t at = 2, length = strlen(parts[i]);

		memcpy(symbol, "_Z", 2);
		for (; at + length < size; at += length)
			memcpy(symbol + at, parts[i], length);
		symbol[at] = '\0';
		found = kernel_names__readable(symbol, false);
		assert_non_null(found);
		assert_true(strlen(found) <= 4096 + 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told),     cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_cut),      cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_fork),     cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_readable), cmocka_unit_test(test_readable_cut),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
