// SPDX-License-Identifier: GPL-2.0-or-later
/* What the kernel's maps hold of PyTorch's memory as a profile: blocks by stack and time, and totals of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/torch_profile.h"

#define CUDA(index) (SO_TORCH_CUDA | (uint32_t)(index) << 8)
#define SECOND      1000000000ull

static void names(void **state)
{
	char text[16];

	torch_profile__device(CUDA(0), text);
	assert_string_equal(text, "CUDA 0");
	torch_profile__device(CUDA(7), text);
	assert_string_equal(text, "CUDA 7");
	torch_profile__device(SO_TORCH_HIP | 1 << 8, text);
	assert_string_equal(text, "HIP 1");
	/* Index -1. */
	torch_profile__device(SO_TORCH_DEVICE(0xff01), text);
	assert_string_equal(text, "CUDA");
	assert_int_equal(SO_TORCH_DEVICE(0xdeadbeef0201ull), CUDA(2));
}

static void groups(void **state)
{
	struct so_torch_block_key keys[] = { { 0x1000, 7, CUDA(0) }, { 0x2000, 7, CUDA(0) }, { 0x3000, 7, CUDA(1) },
					     { 0x4000, 7, CUDA(0) }, { 0x5000, 9, CUDA(0) }, { 0x6000, 7, CUDA(0) } };
	struct so_torch_block blocks[] = {
		{ 100, 11, 1 * SECOND }, { 10, 11, 1 * SECOND + 5 }, { 20, 11, 1 * SECOND },
		{ 30, 11, 20 * SECOND }, { 40, 11, 1 * SECOND },     { 50, 0, 99 * SECOND }
	};
	struct so_torch_device_key device_keys[] = { { 7, CUDA(1) }, { 9, CUDA(0) }, { 7, CUDA(0) } };
	struct so_torch_device devices[3] = { { .since_ns = 1 * SECOND } };
	const struct torch_reading reading = { .block_keys = keys,
					       .blocks = blocks,
					       .n_blocks = 6,
					       .device_keys = device_keys,
					       .devices = devices,
					       .n_devices = 3 };
	struct u64_table gone = { 0 };
	const struct torch_profile torch = { .reading = &reading, .gone = &gone, .since_ns = 0, .end_ns = 20 * SECOND };
	struct torch_group *found;
	uint64_t bytes = 0;
	size_t n;

	assert_int_equal(u64_table__set(&gone, 9, 1), 0);
	found = torch_profile__groups(&torch, &n);
	assert_non_null(found);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++)
		bytes += found[i].bytes;
	assert_int_equal(bytes, 210);
	/* No stack; the last span has what came later as well. */
	assert_int_equal(found[0].key.stack, 0);
	assert_int_equal(found[0].span, TORCH_PROFILE_SPANS - 1);
	/* Two of one span together. */
	assert_int_equal(found[1].key.stack, 11);
	assert_int_equal(found[1].span, 1);
	assert_int_equal(found[1].blocks, 2);
	assert_int_equal(found[1].bytes, 110);
	assert_int_equal(found[2].span, TORCH_PROFILE_SPANS - 1);
	assert_int_equal(found[3].key.device, CUDA(1));
	free(found);
	u64_table__release(&gone);
}

/* What is older than the device, or of none, is of a program that the process has replaced by another one. */
static void after_an_exec(void **state)
{
	struct so_torch_block_key keys[] = { { 0x1000, 7, CUDA(0) }, { 0x2000, 7, CUDA(0) }, { 0x3000, 7, CUDA(1) } };
	struct so_torch_block blocks[] = { { 100, 11, 4 * SECOND }, { 10, 11, 5 * SECOND }, { 20, 11, 9 * SECOND } };
	struct so_torch_device_key device = { 7, CUDA(0) };
	struct so_torch_device values = { .since_ns = 5 * SECOND };
	const struct torch_reading reading = { .block_keys = keys,
					       .blocks = blocks,
					       .n_blocks = 3,
					       .device_keys = &device,
					       .devices = &values,
					       .n_devices = 1 };
	const struct torch_profile torch = { .reading = &reading, .end_ns = 20 * SECOND };
	struct torch_group *found;
	size_t n;

	found = torch_profile__groups(&torch, &n);
	assert_int_equal(n, 1);
	assert_int_equal(found[0].bytes, 10);
	free(found);
}

/* A forked process that only gives back has the other's totals. */
static void forked_processes(void **state)
{
	struct so_torch_device_key keys[] = { { 7, CUDA(0) }, { 8, CUDA(0) }, { 8, CUDA(1) }, { 9, CUDA(0) } };
	struct so_torch_device values[4] = {
		{ .allocated = 3, .allocations = 3 }, { .allocated = 3 }, { .allocated = 4 }, { .allocations = 1 }
	};
	const struct torch_reading reading = { .device_keys = keys, .devices = values, .n_devices = 4 };
	struct u64_table copies = { 0 };

	for (size_t i = 0; i < 4; i++)
		assert_false(torch_reading__is_copy(&reading, i, NULL));
	u64_table__set(&copies, 7, 0);
	u64_table__set(&copies, 8, 7);
	u64_table__set(&copies, 9, 7);
	assert_false(torch_reading__is_copy(&reading, 0, &copies));
	assert_true(torch_reading__is_copy(&reading, 1, &copies));
	/* Of a device that the other has not, and of one that it allocates on by itself. */
	assert_false(torch_reading__is_copy(&reading, 2, &copies));
	assert_false(torch_reading__is_copy(&reading, 3, &copies));
	u64_table__release(&copies);
}

static void no_time_has_passed(void **state)
{
	struct so_torch_block_key key = { 0x1000, 7, CUDA(0) };
	struct so_torch_block block = { 100, 11, 5 };
	struct so_torch_device_key device = { 7, CUDA(0) };
	struct so_torch_device values = { .since_ns = 5 };
	const struct torch_reading reading = { .block_keys = &key,
					       .blocks = &block,
					       .n_blocks = 1,
					       .device_keys = &device,
					       .devices = &values,
					       .n_devices = 1 };
	const struct torch_profile torch = { .reading = &reading, .since_ns = 5, .end_ns = 5 };
	struct torch_group *found;
	size_t n;

	found = torch_profile__groups(&torch, &n);
	assert_int_equal(n, 1);
	assert_int_equal(found[0].span, 0);
	free(found);
}

static void devices(void **state)
{
	struct so_torch_device_key keys[] = { { 9, CUDA(0) }, { 7, CUDA(1) }, { 7, CUDA(0) } };
	struct so_torch_device values[] = { { .allocated = 3 },
					    { .allocated = 2, .reserved = 20, .live = 1 },
					    { .allocated = 1, .refused = 4, .refused_bytes = 5 } };
	const struct torch_reading reading = { .device_keys = keys, .devices = values, .n_devices = 3 };
	struct u64_table gone = { 0 };
	const struct torch_profile torch = { .reading = &reading, .gone = &gone };
	json_t *json, *at;
	char *text;

	assert_int_equal(u64_table__set(&gone, 9, 1), 0);
	text = torch_profile__devices(&torch);
	assert_non_null(text);
	json = json_loads(text, 0, NULL);
	assert_int_equal(json_array_size(json), 3);
	/* By process and number. */
	at = json_array_get(json, 0);
	assert_int_equal(json_integer_value(json_object_get(at, "pid")), 7);
	assert_string_equal(json_string_value(json_object_get(at, "device")), "CUDA 0");
	assert_int_equal(json_integer_value(json_object_get(at, "refused_bytes")), 5);
	at = json_array_get(json, 1);
	assert_string_equal(json_string_value(json_object_get(at, "device")), "CUDA 1");
	assert_int_equal(json_integer_value(json_object_get(at, "seen_bytes")), 1);
	assert_false(json_is_true(json_object_get(at, "gone")));
	at = json_array_get(json, 2);
	assert_int_equal(json_integer_value(json_object_get(at, "pid")), 9);
	assert_true(json_is_true(json_object_get(at, "gone")));
	json_decref(json);
	free(text);
	u64_table__release(&gone);
}

/* Of processes that are hidden there is a number, and nothing else. */
static void hidden_processes(void **state)
{
	struct so_torch_device_key keys[] = { { 9, CUDA(0) }, { 7, CUDA(1) }, { 9, CUDA(1) }, { 11, CUDA(0) } };
	struct so_torch_device values[4] = { { .allocated = 3 } };
	const struct torch_reading reading = { .device_keys = keys, .devices = values, .n_devices = 4 };
	struct u64_table hidden = { 0 };
	const struct torch_profile torch = { .reading = &reading, .hidden = &hidden };
	json_t *json;
	char *text;

	assert_int_equal(torch_profile__hidden(&torch), 0);
	u64_table__set(&hidden, 9, 1);
	u64_table__set(&hidden, 8, 1);
	assert_int_equal(torch_profile__hidden(&torch), 1);
	u64_table__set(&hidden, 11, 1);
	assert_int_equal(torch_profile__hidden(&torch), 2);
	text = torch_profile__devices(&torch);
	json = json_loads(text, 0, NULL);
	assert_int_equal(json_array_size(json), 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(json, 0), "pid")), 7);
	json_decref(json);
	free(text);
	u64_table__release(&hidden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(groups),
		cmocka_unit_test(after_an_exec),
		cmocka_unit_test(forked_processes),
		cmocka_unit_test(no_time_has_passed),
		cmocka_unit_test(devices),
		cmocka_unit_test(hidden_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
