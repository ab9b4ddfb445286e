// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/cuda/handle_names.h"

static struct handle_names *new_names(void)
{
	struct handle_names *names = NULL;

	assert_int_equal(handle_names__new(&names), 0);
	return names;
}

static void tell(struct handle_names *names, uint32_t tgid, uint64_t handle, uint64_t other, const char *name)
{
	struct so_cuda_name record = {
		.tgid = tgid, .namer = other ? SO_CUDA_READ_PAIR : SO_CUDA_READ_HANDLE, .handle = handle, .other = other
	};

	assert_true(strlen(name) < sizeof(record.name));
	memcpy(record.name, name, strlen(name));
	assert_int_equal(handle_names__add(names, &record), 0);
}

static void expect(const struct handle_names *names, uint32_t tgid, uint64_t handle, const char *name)
{
	const char *found = handle_names__find(names, tgid, handle);

	if (!name)
		assert_null(found);
	else
		assert_string_equal(found, name);
}

static void test_each_has_its_own(void **state)
{
	_cleanup_(handle_names) struct handle_names *names = new_names();

	tell(names, 1, 0x10, 0, "_Z3addPf");
	tell(names, 1, 0x20, 0, "sm90_xmma_gemm");
	expect(names, 1, 0x10, NULL);
	tell(names, 1, 0x20, 0, "sm90_xmma_gemm");
	expect(names, 1, 0x10, NULL);
	tell(names, 1, 0x30, 0, "triton_poi.fused$1");
	expect(names, 1, 0x10, "_Z3addPf");
	expect(names, 1, 0x30, "triton_poi.fused$1");
	expect(names, 1, 0x40, NULL);
	expect(names, 2, 0x10, NULL);
	handle_names__forget(names, 1);
	expect(names, 1, 0x10, NULL);
}

static void test_something_else_is_there(void **state)
{
	static const char *const no_names[] = { "", "a", "7seven", "two words", "\xff\xfe", "path/of" };

	for (size_t i = 0; i < sizeof(no_names) / sizeof(no_names[0]); i++) {
		_cleanup_(handle_names) struct handle_names *names = new_names();

		tell(names, 1, 0x10, 0, "one");
		tell(names, 1, 0x20, 0, no_names[i]);
		tell(names, 1, 0x30, 0, "three");
		tell(names, 1, 0x40, 0, "four");
		tell(names, 1, 0x50, 0, "five");
		expect(names, 1, 0x10, NULL);
		expect(names, 1, 0x20, NULL);
	}
}

static int answer(void *context, uint32_t tgid, uint64_t kernel, const char *name)
{
	const char *known = context;

	return kernel == 0xdead ? -1 : !strcmp(name, known);
}

static void test_proofs(void **state)
{
	_cleanup_(handle_names) struct handle_names *names = new_names();
	char known[] = "same";

	tell(names, 1, 0x10, 0, "alone");
	tell(names, 1, 0x20, 0x100, "same");
	tell(names, 1, 0x20, 0x100, "same");
	tell(names, 1, 0x20, 0xdead, "same");
	assert_false(handle_names__compare(names, answer, known));
	expect(names, 1, 0x10, NULL);
	tell(names, 1, 0x30, 0x200, "same");
	assert_true(handle_names__compare(names, answer, known));
	expect(names, 1, 0x10, "alone");
	/* One that is wrong against two that are right. */
	tell(names, 1, 0x40, 0x300, "another");
	assert_true(handle_names__compare(names, answer, known));
	expect(names, 1, 0x10, NULL);
	tell(names, 1, 0x40, 0x400, "same");
	tell(names, 1, 0x40, 0x500, "same");
	assert_true(handle_names__compare(names, answer, known));
	expect(names, 1, 0x10, "alone");
}

/* Three names are not enough where what could be compared was another. */
static void test_refuted(void **state)
{
	_cleanup_(handle_names) struct handle_names *names = new_names();
	char known[] = "same";

	tell(names, 1, 0x10, 0, "one");
	tell(names, 1, 0x20, 0, "two");
	tell(names, 1, 0x30, 0, "three");
	expect(names, 1, 0x10, "one");
	tell(names, 1, 0x40, 0x100, "another");
	assert_true(handle_names__compare(names, answer, known));
	expect(names, 1, 0x10, NULL);
}

static void test_bound(void **state)
{
	_cleanup_(handle_names) struct handle_names *names = new_names();
	char name[32];

	for (uint64_t i = 1; i <= HANDLE_NAMES_MAX + 10; i++) {
		snprintf(name, sizeof(name), "kernel_%zu", (size_t)i);
		tell(names, 1, i, 0, name);
	}
	expect(names, 1, HANDLE_NAMES_MAX, "kernel_16384");
	expect(names, 1, HANDLE_NAMES_MAX + 1, NULL);
	tell(names, 1, 1, 0, "other_kernel");
	expect(names, 1, 1, "other_kernel");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_has_its_own), cmocka_unit_test(test_something_else_is_there),
		cmocka_unit_test(test_proofs),           cmocka_unit_test(test_refuted),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
