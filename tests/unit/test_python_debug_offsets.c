/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_debug_offsets.h"
#include "tests/unit/python_free_threaded_tables.h"
#include "tests/unit/python_tables.h"

static int read_table(const uint64_t *words, size_t n, struct python_layout *out, struct so_error *err)
{
	uint64_t bytes[PYTHON_DEBUG_OFFSETS_BYTES / 8];

	memset(bytes, 0x5a, sizeof(bytes));
	memcpy(bytes, words, n * 8);
	return python_debug_offsets__read(bytes, sizeof(bytes), out, err);
}

static void test_3_13(void **state)
{
	struct so_error err = { "" };
	struct python_layout layout;

	assert_int_equal(read_table(python_table_3_13, 73, &layout, &err), 0);
	assert_int_equal(layout.version, 0x030d);
	assert_int_equal(layout.walker.frame_entry, 70);
	assert_int_equal(layout.walker.frame_bytes, 71);
	assert_int_equal(layout.walker.entry_owner, 3);
	assert_int_equal(layout.walker.flags, 0);
	assert_int_equal(layout.runtime_autotss_key, 2160);
}

static void test_3_14(void **state)
{
	struct so_error err = { "" };
	struct python_layout layout;

	assert_int_equal(read_table(python_table_3_14, 95, &layout, &err), 0);
	assert_int_equal(layout.version, 0x030e);
	assert_int_equal(layout.walker.version, 0x030e);
	assert_int_equal(layout.walker.flags, SO_PYTHON_TAGGED);
	assert_int_equal(layout.walker.entry, SO_PYTHON_ENTRY_SHIM);
	assert_int_equal(layout.walker.entry_owner, 3);
	assert_int_equal(layout.walker.frame, 72);
	assert_int_equal(layout.walker.interp, 16);
	assert_int_equal(layout.walker.thread_id, 152);
	assert_int_equal(layout.walker.interp_gil, 16);
	assert_int_equal(layout.walker.gil_holder, 8);
	assert_int_equal(layout.walker.gil_locked, 16);
	assert_int_equal(layout.walker.frame_code, 0);
	assert_int_equal(layout.walker.frame_back, 8);
	assert_int_equal(layout.walker.frame_instruction, 56);
	assert_int_equal(layout.walker.frame_entry, 74);
	assert_int_equal(layout.walker.frame_bytes, 75);
	assert_int_equal(layout.walker.code_first, 208);
	assert_int_equal(layout.walker.code_sum, 32);
	assert_int_equal(layout.runtime_interpreters_head, 808);
	assert_int_equal(layout.runtime_initialized, 776);
	assert_int_equal(layout.runtime_autotss_key, 0);
	assert_int_equal(layout.interp_next, 7288);
	assert_int_equal(layout.interp_threads_head, 7368);
	assert_int_equal(layout.thread_prev, 0);
	assert_int_equal(layout.thread_next, 8);
	assert_int_equal(layout.thread_native_id, 160);
	assert_int_equal(layout.object_type, 8);
	assert_int_equal(layout.type_name, 24);
	assert_int_equal(layout.code.argcount, 52);
	assert_int_equal(layout.code.kwonlyargcount, 60);
	assert_int_equal(layout.code.flags, 48);
	assert_int_equal(layout.code.firstlineno, 68);
	assert_int_equal(layout.code.filename, 112);
	assert_int_equal(layout.code.name, 120);
	assert_int_equal(layout.code.qualname, 128);
	assert_int_equal(layout.code.linetable, 136);
	assert_int_equal(layout.str.ascii_data, 40);
	assert_int_equal(layout.str.compact_data, 56);
	assert_int_equal(layout.bytes.data, 32);
}

static void expect_refused(const uint64_t *table, size_t n, unsigned at, uint64_t value, int code, const char *wanted)
{
	struct python_layout layout = { .version = 0x1234 };
	struct so_error err = { "" };
	uint64_t words[111];
	int r;

	memcpy(words, table, n * 8);
	words[at] = value;
	r = read_table(words, n, &layout, &err);
	if (r != code)
		fail_msg("word %u as %#" PRIx64 ": %d, not %d (%s)", at, value, r, code, err.text);
	if (!strstr(err.text, wanted))
		fail_msg("word %u: \"%s\" does not say \"%s\"", at, err.text, wanted);
	assert_int_equal(layout.version, 0x1234);
}

static void test_3_15(void **state)
{
	struct so_error err = { "" };
	struct python_layout layout;

	assert_int_equal(read_table(python_table_3_15, 111, &layout, &err), 0);
	assert_int_equal(layout.version, 0x030f);
	assert_true(layout.thread_local);
	assert_int_equal(layout.runtime_autotss_key, 0);
	assert_int_equal(layout.walker.flags, SO_PYTHON_TAGGED);
	assert_int_equal(layout.walker.frame, 72);
	assert_int_equal(layout.walker.thread_id, 176);
	assert_int_equal(layout.thread_native_id, 184);
	assert_int_equal(layout.walker.frame_entry, 74);
	assert_int_equal(layout.walker.code_first, 208);
	assert_int_equal(layout.attributes.cached_keys, 888);
	assert_int_equal(layout.runtime_initialized, 111 * 8 + 16);
	expect_refused(python_table_3_15, 111, 67, 892, -EINVAL, "heap_type_object.ht_cached_keys");
	expect_refused(python_table_3_15, 111, 67, 1ull << 40, -EINVAL, "heap_type_object.ht_cached_keys");
	expect_refused(python_table_3_14, 95, 1, 0x030f00f0, -EINVAL, "_Py_DebugOffsets");
	expect_refused(python_table_3_15, 111, 1, 0x030e00f0, -EINVAL, "_Py_DebugOffsets");
}

/* What Py_GIL_DISABLED changes in all of them. */
static void expect_free_threaded(const struct python_layout *layout)
{
	assert_true(layout->free_threaded);
	assert_true(layout->walker.flags & SO_PYTHON_FREE_THREADED);
	assert_int_equal(layout->walker.gil_enabled, 0);
	assert_int_equal(layout->walker.gil_holder, 16);
	assert_int_equal(layout->walker.gil_locked, 24);
	assert_int_equal(layout->object_type, 24);
	assert_int_equal(python_layout__header(layout), 32);
	assert_int_equal(layout->type_name, 40);
	assert_int_equal(layout->str.ascii_data, 56);
	assert_int_equal(layout->str.compact_data, 72);
	assert_int_equal(layout->attributes.dict_before, 8);
}

static void test_free_threaded(void **state)
{
	struct so_error err = { "" };
	struct python_layout layout;

	assert_int_equal(read_table(python_table_3_13t, 73, &layout, &err), 0);
	expect_free_threaded(&layout);
	assert_int_equal(layout.runtime_autotss_key, 2160);
	assert_int_equal(layout.walker.flags, SO_PYTHON_FREE_THREADED);
	assert_int_equal(layout.walker.code_first, 216);
	assert_int_equal(layout.str.kind_bit, 2);
	assert_int_equal(layout.attributes.cached_keys, 896);

	assert_int_equal(read_table(python_table_3_14t, 95, &layout, &err), 0);
	expect_free_threaded(&layout);
	assert_int_equal(layout.walker.flags, SO_PYTHON_TAGGED | SO_PYTHON_FREE_THREADED | SO_PYTHON_COPIES);
	assert_int_equal(layout.walker.code_first, 232);
	assert_int_equal(layout.walker.code_copies, 224);
	assert_int_equal(layout.walker.frame_copy, 72);
	assert_int_equal(layout.walker.frame_entry, 78);
	assert_int_equal(layout.walker.frame_bytes, 79);
	assert_int_equal(layout.str.kind_bit, 8);
	assert_int_equal(layout.attributes.cached_keys, 896);

	assert_int_equal(read_table(python_table_3_15t, 111, &layout, &err), 0);
	expect_free_threaded(&layout);
	assert_int_equal(layout.walker.flags, SO_PYTHON_TAGGED | SO_PYTHON_FREE_THREADED | SO_PYTHON_COPIES);
	assert_true(layout.thread_local);
	assert_int_equal(layout.walker.frame_copy, 72);
	assert_int_equal(layout.walker.code_copies, 224);
	assert_int_equal(layout.str.kind_bit, 8);
	assert_int_equal(layout.attributes.cached_keys, 904);

	/* Where the copies are, and the switch of the lock. */
	expect_refused(python_table_3_13t, 73, 16, 4, -EINVAL, "gil_runtime_state_enabled");
	expect_refused(python_table_3_14t, 95, 17, 8, -EINVAL, "gil_runtime_state_enabled");
	expect_refused(python_table_3_14t, 95, 38, 76, -EINVAL, "interpreter_frame.tlbc_index");
	expect_refused(python_table_3_14t, 95, 38, UINT64_MAX - 3, -EINVAL, "interpreter_frame.tlbc_index");
	expect_refused(python_table_3_14t, 95, 49, 216, -EINVAL, "code_object.co_tlbc");
	expect_refused(python_table_3_15t, 111, 46, 0, -EINVAL, "interpreter_frame.tlbc_index");
	expect_refused(python_table_3_15t, 111, 57, 0, -EINVAL, "code_object.co_tlbc");
}

static void test_other_builds(void **state)
{
	const uint64_t *t13 = python_table_3_13, *t14 = python_table_3_14;

	/* Of one build, said to be of the other. */
	expect_refused(t13, 73, 2, 1, -EINVAL, "of an unknown layout");
	expect_refused(t14, 95, 2, 1, -EINVAL, "of an unknown layout");
	expect_refused(python_table_3_15, 111, 2, 1, -EINVAL, "of an unknown layout");
	expect_refused(python_table_3_13t, 73, 2, 0, -EINVAL, "of an unknown layout");
	expect_refused(python_table_3_14t, 95, 2, 0, -EINVAL, "of an unknown layout");
	expect_refused(python_table_3_15t, 111, 2, 0, -EINVAL, "of an unknown layout");
	expect_refused(t14, 95, 1, 0x030e00c2, -ENOTSUP, "3.14.0rc2 (pre-release)");
	expect_refused(python_table_3_15, 111, 1, 0x030f00a7, -ENOTSUP, "3.15.0a7 (pre-release)");
	expect_refused(python_table_3_15, 111, 1, 0x031000f0, -ENOTSUP, "3.16.0");
}

static void test_damaged(void **state)
{
	const uint64_t *t13 = python_table_3_13, *t14 = python_table_3_14;

	expect_refused(t13, 73, 0, t13[0] + 1, -EINVAL, "no _Py_DebugOffsets");
	expect_refused(t13, 73, 2, 2, -EINVAL, "no _Py_DebugOffsets");
	expect_refused(t14, 95, 1, 0x30e00f0000ull, -EINVAL, "no _Py_DebugOffsets");
	expect_refused(t14, 95, 1, 0x030c00f0, -EINVAL, "version");
	/* One minor version's words read as the other's. */
	expect_refused(t13, 73, 1, 0x030e00f0, -EINVAL, "_Py_DebugOffsets");
	expect_refused(t14, 95, 1, 0x030d00f0, -EINVAL, "_Py_DebugOffsets");

	/* Out of the structure, out of place, over another field, beyond all measure. */
	expect_refused(t13, 73, 23, 304, -EINVAL, "thread_state.current_frame");
	expect_refused(t13, 73, 23, 73, -EINVAL, "thread_state.current_frame");
	expect_refused(t13, 73, 23, UINT64_MAX - 7, -EINVAL, "thread_state.current_frame");
	expect_refused(t13, 73, 23, 152, -EINVAL, "overlap");
	expect_refused(t13, 73, 19, 1 << 20, -EINVAL, "thread_state.size");
	expect_refused(t13, 73, 28, 0, -EINVAL, "interpreter_frame.size");
	expect_refused(t13, 73, 31, 80, -EINVAL, "interpreter_frame.instr_ptr");
	expect_refused(t13, 73, 39, 72, -EINVAL, "code_object");
	expect_refused(t13, 73, 18, 7760 + 16, -EINVAL, "interpreter_state");
	expect_refused(t13, 73, 14, 70000, -EINVAL, "interpreter_state");
	expect_refused(t13, 73, 5, 8, -EINVAL, "runtime_state");
	expect_refused(t14, 95, 80, 48, -EINVAL, "unicode_object");
}

static void test_cut_off(void **state)
{
	struct python_layout layout = { .version = 0x1234 };
	const uint64_t *table = python_table_3_13;
	struct so_error err = { "" };

	for (size_t n = 0; n < sizeof(python_table_3_13); n++)
		assert_int_equal(python_debug_offsets__read(table, n, &layout, &err), -EINVAL);
	assert_int_equal(layout.version, 0x1234);
	assert_int_equal(python_debug_offsets__read(table, sizeof(python_table_3_13), &layout, &err), 0);
	assert_int_equal(python_debug_offsets__version(table, 16), 0x030d00f0);
	assert_int_equal(python_debug_offsets__version(table, 15), 0);
	assert_int_equal(python_debug_offsets__version(table + 1, 16), 0);
}

/* Whatever a flip of bits leads to: either it is refused, or what comes out keeps the limits that readers rely on. */
static void test_flipped_bits(void **state)
{
	unsigned seed = 7, refused = 0;

	for (unsigned round = 0; round < 200000; round++) {
		static const uint64_t *const tables[] = { python_table_3_13,  python_table_3_14,  python_table_3_15,
							  python_table_3_13t, python_table_3_14t, python_table_3_15t };
		static const size_t sizes[] = { 73, 95, 111, 73, 95, 111 };
		size_t n = sizes[round % 6];
		struct python_layout layout;
		uint64_t words[111];

		memcpy(words, tables[round % 6], n * 8);
		for (unsigned flips = 1 + (unsigned)rand_r(&seed) % 3; flips > 0; flips--)
			words[(unsigned)rand_r(&seed) % n] ^= 1ull << rand_r(&seed) % 64;
		if (read_table(words, n, &layout, NULL) < 0) {
			refused++;
			continue;
		}
		assert_true(layout.version >= 0x030d && layout.version <= 0x030f);
		assert_true(layout.walker.frame_bytes <= SO_PYTHON_FRAME_BYTES);
		assert_true(layout.walker.frame_instruction + 8 <= layout.walker.frame_bytes);
		assert_true(layout.walker.frame_code + 8 <= layout.walker.frame_bytes);
		assert_true(layout.walker.frame_back + 8 <= layout.walker.frame_bytes);
		assert_true(layout.walker.frame_entry < layout.walker.frame_bytes);
		assert_true(layout.walker.frame_copy + 4 <= layout.walker.frame_bytes);
		assert_true(layout.walker.code_copies < layout.walker.code_first || !layout.walker.code_copies);
		assert_true(layout.code.linetable == layout.walker.code_sum + 13 * 8);
		assert_true(layout.runtime_interpreters_head < 64 << 20);
	}
	/* Most words are not read, but many are. */
	assert_true(refused > 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_3_13),         cmocka_unit_test(test_3_14),
		cmocka_unit_test(test_3_15),         cmocka_unit_test(test_free_threaded),
		cmocka_unit_test(test_other_builds), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_cut_off),      cmocka_unit_test(test_flipped_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
