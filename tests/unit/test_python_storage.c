/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "daemon/python/python_storage.h"
#include "tests/unit/made_python.h"

static struct made_python made;
static struct python_thread threads[4];
static struct python_thread_locals locals;

static void make(unsigned n)
{
	made_python__init(&made, n);
	for (unsigned i = 0; i < n; i++)
		threads[i] = (struct python_thread){ .state = MADE_THREAD(i), .thread_id = MADE_SELF(i) };
}

static int find(const struct python_layout *layout, unsigned n, int32_t *tss, struct so_error *err)
{
	struct so_python_place place = { .tss = (int16_t)*tss };
	int ret = python_storage__find(&made.memory, layout, MADE_RUNTIME, &locals, threads, n, &place, err);

	*tss = place.tss;
	return ret;
}

static void expect_found(const struct python_layout *layout, unsigned n, int32_t wanted)
{
	struct so_error err = { "" };
	int32_t tss = 0;

	assert_int_equal(find(layout, n, &tss, &err), 0);
	assert_int_equal(tss, wanted);
}

static void expect_refused(const struct python_layout *layout, unsigned n, const char *wanted)
{
	struct so_error err = { "" };
	int32_t tss = 77;

	assert_int_equal(find(layout, n, &tss, &err), -ENOTSUP);
	assert_int_equal(tss, 77);
	if (!strstr(err.text, wanted))
		fail_msg("\"%s\" does not say \"%s\"", err.text, wanted);
}

static void test_by_key(void **state)
{
	make(1);
	expect_found(made.layout, 1, MADE_KEY_SLOT(3) + 8);
	/* Another library keeps the thread state too, under an earlier key. */
	made_python__set(&made, 0, 1, MADE_THREAD(0));
	expect_found(made.layout, 1, MADE_KEY_SLOT(3) + 8);
	/* One of them is being started and has its maker's id yet, and one is not the thread's own. */
	make(3);
	threads[1].thread_id = MADE_SELF(0);
	made_python__set(&made, 2, 3, MADE_THREAD(0));
	expect_found(made.layout, 3, MADE_KEY_SLOT(3) + 8);
}

static void test_without_key(void **state)
{
	struct python_layout layout;

	make(3);
	layout = *made.layout;
	layout.runtime_autotss_key = 0;
	expect_found(&layout, 3, MADE_KEY_SLOT(3) + 8);
	/* Most of them decide, then the first. */
	made_python__set(&made, 0, 1, MADE_THREAD(0));
	expect_found(&layout, 3, MADE_KEY_SLOT(3) + 8);
	for (unsigned i = 0; i < 3; i++)
		made_python__set(&made, i, 5, MADE_THREAD(i));
	expect_found(&layout, 3, MADE_KEY_SLOT(3) + 8);
	/* A key's number that is not one, where the layout has no key to know. */
	make(3);
	made_python__key(&made, 1, 30);
	expect_found(made.layout, 3, MADE_KEY_SLOT(3) + 8);
	made_python__key(&made, 1, 1u << 31);
	expect_found(made.layout, 3, MADE_KEY_SLOT(3) + 8);
	made_python__key(&made, 0, 3);
	expect_found(made.layout, 3, MADE_KEY_SLOT(3) + 8);
}

static void test_what_is_no_storage(void **state)
{
	/* A slot that is not in use: its value is left over. */
	make(1);
	made_python__u64(&made, MADE_SELF(0) + MADE_KEY_SLOT(3), 2);
	expect_refused(made.layout, 1, "elsewhere");
	make(1);
	made_python__u64(&made, MADE_SELF(0) + MADE_KEY_SLOT(3), 0x7f0000000001ull);
	expect_refused(made.layout, 1, "elsewhere");
	/* A word between two slots. */
	make(1);
	made_python__u64(&made, MADE_SELF(0) + MADE_KEY_SLOT(3) + 8, 0);
	made_python__u64(&made, MADE_SELF(0) + MADE_KEY_SLOT(3), MADE_THREAD(0));
	expect_refused(made.layout, 1, "elsewhere");
	make(1);
	made_python__set(&made, 0, 3, 0);
	made_python__key(&made, 1, 40);
	expect_refused(made.layout, 1, "number 40");
	expect_refused(made.layout, 0, "not glibc");
}

/* musl: the third and fourth words of a descriptor lead to its neighbours in the list of threads, here itself. */
static void test_other_libraries(void **state)
{
	make(1);
	made_python__u64(&made, MADE_SELF(0) + 24, MADE_SELF(0));
	expect_refused(made.layout, 1, "not glibc");
	make(1);
	made_python__u64(&made, MADE_SELF(0) + 16, 0);
	expect_refused(made.layout, 1, "not glibc");
	/* Not to be read as far as the storage would go. */
	make(1);
	threads[0].thread_id = MADE_BASE + MADE_BYTES - 0x100;
	made_python__u64(&made, threads[0].thread_id, threads[0].thread_id);
	made_python__u64(&made, threads[0].thread_id + 16, threads[0].thread_id);
	expect_refused(made.layout, 1, "elsewhere");
}

#define MUSL_TABLE(i) (MADE_SELF(i) + 0x800) /* of values, in the descriptor of thread i at 0x80 */

static void make_musl(unsigned n, unsigned key)
{
	make(n);
	for (unsigned i = 0; i < n; i++) {
		made_python__set(&made, i, 3, 0);
		made_python__u64(&made, MADE_SELF(i) + 16, MADE_SELF((i + 1) % n));
		made_python__u64(&made, MADE_SELF(i) + 24, MADE_SELF((i + 1) % n));
		made_python__u64(&made, MADE_SELF(i) + 0x80, MUSL_TABLE(i));
		made_python__u64(&made, MUSL_TABLE(i) + 8 * key, MADE_THREAD(i));
	}
}

static void expect_in_table(const struct python_layout *layout, unsigned n, int table, int tss)
{
	struct so_python_place place = { 0 };
	struct so_error err = { "" };

	assert_int_equal(python_storage__find(&made.memory, layout, MADE_RUNTIME, &locals, threads, n, &place, &err),
			 0);
	assert_int_equal(place.table, table);
	assert_int_equal(place.tss, tss);
}

static void test_musl(void **state)
{
	struct python_layout layout;

	/* More keys than glibc's descriptors hold. */
	make_musl(3, 40);
	made_python__key(&made, 1, 40);
	expect_in_table(made.layout, 3, 0x80, 40 * 8);
	/* One of them has begun and has no value yet. */
	made_python__u64(&made, MUSL_TABLE(0) + 8 * 40, 0);
	expect_in_table(made.layout, 3, 0x80, 40 * 8);
	/* Another library has the same under another key: the number decides, or most of them. */
	made_python__u64(&made, MUSL_TABLE(1) + 8 * 2, MADE_THREAD(1));
	expect_in_table(made.layout, 3, 0x80, 40 * 8);
	layout = *made.layout;
	layout.runtime_autotss_key = 0;
	expect_in_table(&layout, 3, 0x80, 40 * 8);
	/* None where it should be. */
	make_musl(1, 5);
	made_python__key(&made, 1, 6);
	expect_refused(made.layout, 1, "not musl");
}

/* 3.15: the program's own code says where it is; it has to be there. */
static void test_thread_locals_of_a_program(void **state)
{
	struct python_layout layout;

	make(2);
	layout = *made.layout;
	layout.thread_local = true;
	locals = (struct python_thread_locals){ PYTHON_LOCALS_UNKNOWN, 0, 0 };
	expect_refused(&layout, 2, "is not known");
	locals = (struct python_thread_locals){ PYTHON_LOCALS_OF_THREAD, -40, -32 };
	expect_refused(&layout, 2, "not where its own code reads them");
	made_python__u64(&made, MADE_SELF(1) - 40, MADE_THREAD(1));
	expect_found(&layout, 2, -40);
}

/* Of a library only how far the two variables are apart is known: one that holds the interpreter has both. */
static void test_thread_locals_of_a_library(void **state)
{
	struct python_layout layout;

	make(3);
	layout = *made.layout;
	layout.thread_local = true;
	locals = (struct python_thread_locals){ PYTHON_LOCALS_OF_MODULE, 40, 32 };
	/* Away from the lists of the interpreter, which have the same words. */
	for (unsigned i = 0; i < 3; i++)
		threads[i].thread_id = MADE_BASE + 0xd000 + i * 0x1000;
	expect_refused(&layout, 3, "a library that was loaded late");
	for (unsigned i = 0; i < 3; i++)
		made_python__u64(&made, threads[i].thread_id - 0x208, MADE_THREAD(i));
	expect_found(&layout, 3, -0x208);
	made_python__u64(&made, threads[1].thread_id - 0x210, MADE_THREAD(1));
	expect_found(&layout, 3, -0x208);
	/* One thread alone, which holds it; and the other order of the two. */
	expect_found(&layout, 1, -0x208);
	made_python__u64(&made, threads[0].thread_id - 0x210, MADE_THREAD(0));
	expect_found(&layout, 1, -0x208);
	locals = (struct python_thread_locals){ PYTHON_LOCALS_OF_MODULE, 32, 40 };
	expect_found(&layout, 1, -0x210);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_key),
		cmocka_unit_test(test_without_key),
		cmocka_unit_test(test_what_is_no_storage),
		cmocka_unit_test(test_musl),
		cmocka_unit_test(test_other_libraries),
		cmocka_unit_test(test_thread_locals_of_a_program),
		cmocka_unit_test(test_thread_locals_of_a_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
