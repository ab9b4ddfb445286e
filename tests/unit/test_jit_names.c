/* SPDX-License-Identifier: GPL-2.0-or-later */
/* This process is the one with the perf map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/profile/jit_names.h"
#include "daemon/symbols/perf_map.h"

#define A 0x7f0000001004ull
#define B 0x7f0000002004ull

struct world {
	struct jit_names *j;
	char path[64];
};

static void append(const struct world *w, const char *text)
{
	_cleanup_fclose_ FILE *f = fopen(w->path, "ae");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
}

static int set_up(void **state)
{
	static struct world w;

	assert_int_equal(jit_names__new(&w.j), 0);
	snprintf(w.path, sizeof(w.path), "/tmp/perf-%d.map", getpid());
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	unlink(w->path);
	jit_names__free(w->j);
	return 0;
}

struct seen {
	uint64_t hash;
	uint32_t window;
};

static struct seen see(const struct world *w, uint64_t address)
{
	const struct so_stack_record record = { .tgid = (uint32_t)getpid(), .n_user = 2 };
	const uint64_t frames[] = { SO_FRAME(3, 0x10), SO_FRAME(0, address) };
	struct seen seen = { .hash = 1 };

	seen.window = jit_names__window(w->j, &record, frames, &seen.hash);
	return seen;
}

/* The names of an address in that window, in the file as it is now. */
static void expect(const struct world *w, uint64_t address, const struct seen *seen, const char *first,
		   const char *second)
{
	_cleanup_(perf_map) struct perf_map *map = NULL;
	struct perf_map_names names;
	uint64_t from, to;

	assert_true(jit_names__file_then(w->j, getpid(), seen->window, &from, &to));
	assert_int_equal(perf_map__read(getpid(), &map, NULL), 0);
	perf_map__names_between(map, address, from, to, &names);
	assert_int_equal(names.n, second ? 2 : 1);
	assert_string_equal(names.list[0], first);
	if (second)
		assert_string_equal(names.list[1], second);
}

static bool is_known(const struct world *w, const struct seen *seen)
{
	uint64_t from, to;

	return jit_names__file_then(w->j, getpid(), seen->window, &from, &to);
}

static void drain(const struct world *w)
{
	jit_names__turn(w->j);
}

static void test_reused_address(void **state)
{
	struct world *w = *state;
	struct seen a[4], b[2];

	append(w, "7f0000001000 10 old\n7f0000002000 10 other\n");
	a[0] = see(w, A);
	drain(w);
	assert_false(is_known(w, &a[0]));
	jit_names__poll(w->j, 0);
	b[0] = see(w, B);
	a[1] = see(w, A);
	assert_int_equal(a[1].hash, a[0].hash);
	drain(w);
	/* In this window it gets another name. */
	append(w, "7f0000001000 10 new\n");
	jit_names__poll(w->j, 0);
	a[2] = see(w, A);
	b[1] = see(w, B);
	assert_int_not_equal(a[2].hash, a[0].hash);
	assert_int_equal(b[1].hash, b[0].hash);
	drain(w);
	jit_names__poll(w->j, 0);
	a[3] = see(w, A);
	assert_int_not_equal(a[3].hash, a[2].hash);
	assert_int_not_equal(a[3].hash, a[0].hash);
	expect(w, A, &a[0], "old", NULL);
	expect(w, A, &a[1], "old", NULL);
	expect(w, A, &a[2], "old", "new");
	expect(w, A, &a[3], "new", NULL);
	expect(w, B, &b[0], "other", NULL);
	/* Nothing more happens to it. */
	for (int i = 0; i < 3; i++) {
		drain(w);
		append(w, "7f0000009000 10 elsewhere\n");
		jit_names__poll(w->j, 0);
		assert_int_equal(see(w, A).hash, a[3].hash);
	}
}

/* Reused while it was not sampled, and before it ever was. */
static void test_reused_between_samples(void **state)
{
	struct world *w = *state;
	struct seen first, a, b;

	append(w, "7f0000001000 10 old\n");
	first = see(w, A);
	jit_names__poll(w->j, 0);
	drain(w);
	append(w, "7f0000001000 10 new\n7f0000002000 10 one\n");
	jit_names__poll(w->j, 0);
	drain(w);
	append(w, "7f0000002000 10 two\n");
	jit_names__poll(w->j, 0);
	drain(w);
	jit_names__poll(w->j, 0);
	a = see(w, A);
	b = see(w, B);
	assert_int_not_equal(a.hash, first.hash);
	expect(w, A, &first, "old", NULL);
	expect(w, A, &a, "new", NULL);
	expect(w, B, &b, "two", NULL);
}

/* The line may come after the code has run. */
static void test_late_line(void **state)
{
	struct world *w = *state;
	struct seen a, later;

	append(w, "7f0000009000 10 elsewhere\n");
	see(w, B);
	jit_names__poll(w->j, 0);
	drain(w);
	a = see(w, A);
	drain(w);
	append(w, "7f0000001000 10 late\n");
	jit_names__poll(w->j, 0);
	later = see(w, A);
	expect(w, A, &a, "late", NULL);
	expect(w, A, &later, "late", NULL);
}

/* A line is looked at when it is whole. */
static void test_half_a_line(void **state)
{
	struct world *w = *state;
	struct seen a, half, whole;

	append(w, "7f0000001000 10 old\n");
	see(w, A);
	jit_names__poll(w->j, 0);
	drain(w);
	a = see(w, A);
	append(w, "7f0000001000 1");
	jit_names__poll(w->j, 0);
	half = see(w, A);
	assert_int_equal(half.hash, a.hash);
	drain(w);
	append(w, "0 new\n");
	jit_names__poll(w->j, 0);
	whole = see(w, A);
	expect(w, A, &half, "old", NULL);
	expect(w, A, &whole, "old", "new");
}

/* JVMs write the whole file again, others make a new one: what there was before has the newest names. */
static void test_another_file(void **state)
{
	struct world *w = *state;
	struct seen a, after;

	for (int made = 0; made < 2; made++) {
		append(w, "7f0000001000 10 old\n7f0000002000 10 other\n");
		see(w, A);
		jit_names__poll(w->j, 0);
		drain(w);
		a = see(w, A);
		assert_true(is_known(w, &a));
		if (made)
			unlink(w->path);
		else
			assert_int_equal(truncate(w->path, 0), 0);
		append(w, "7f0000001000 10 new\n");
		jit_names__poll(w->j, 0);
		assert_false(is_known(w, &a));
		drain(w);
		after = see(w, A);
		assert_int_not_equal(after.hash, a.hash);
		expect(w, A, &after, "new", NULL);
		unlink(w->path);
		tear_down(state);
		set_up(state);
	}
}

/* More than is looked at: any address may have got another name. */
static void test_much_at_once(void **state)
{
	struct world *w = *state;
	struct seen a, after;

	append(w, "7f0000001000 10 old\n");
	see(w, A);
	jit_names__poll(w->j, 0);
	drain(w);
	a = see(w, A);
	for (unsigned i = 0; i <= JIT_NAMES_MAX_BYTES / 32; i++)
		append(w, "7f0000009000 10 something_else__\n");
	jit_names__poll(w->j, 0);
	after = see(w, A);
	assert_int_not_equal(after.hash, a.hash);
	expect(w, A, &after, "old", NULL);
}

static void test_no_file(void **state)
{
	struct world *w = *state;
	struct seen a = see(w, A);

	jit_names__poll(w->j, 0);
	drain(w);
	assert_false(is_known(w, &a));
	assert_int_equal(see(w, A).hash, a.hash);
	assert_false(jit_names__follows_any(w->j));
}

static void test_code_in_files(void **state)
{
	struct world *w = *state;
	const struct so_stack_record record = { .tgid = (uint32_t)getpid(), .n_user = 1 };
	const uint64_t frame = SO_FRAME(3, 0x10);
	uint64_t hash = 1, from, to;

	assert_int_equal(jit_names__window(w->j, &record, &frame, &hash), 0);
	assert_int_equal(hash, 1);
	assert_false(jit_names__file_then(w->j, getpid(), 0, &from, &to));
	assert_false(jit_names__file_then(NULL, getpid(), 1, &from, &to));
}

static void test_limits(void **state)
{
	struct world *w = *state;
	struct so_stack_record record = { .n_user = 1 };
	uint64_t frame = SO_FRAME(0, A), hash = 1;
	struct seen before;

	for (uint64_t i = 0; i < JIT_NAMES_MAX_ADDRESSES + 10; i++)
		see(w, A + i);
	before = see(w, A + JIT_NAMES_MAX_ADDRESSES + 5);
	drain(w);
	assert_int_equal(see(w, A + JIT_NAMES_MAX_ADDRESSES + 5).hash, before.hash);
	for (uint32_t i = 1; i <= 3 * JIT_NAMES_MAX_PROCESSES; i++) {
		record.tgid = 0x40000000 + i;
		assert_int_not_equal(jit_names__window(w->j, &record, &frame, &hash), 0);
	}
	jit_names__poll(w->j, 0);
	assert_false(is_known(w, &before));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(reused_address), TEST(reused_between_samples), TEST(late_line), TEST(half_a_line),
		TEST(another_file),   TEST(much_at_once),           TEST(no_file),   TEST(limits),
		TEST(code_in_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
