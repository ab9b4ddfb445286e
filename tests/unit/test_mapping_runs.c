// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/processes/mapping_runs.c"

#define GRACE_NS 1000000000ull /* as in mapping_runs.c */

static uint64_t now_ns = 5000000000ull;

/* Takes the C library's place: the module's clock stands still until a test moves it. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = (struct timespec){ .tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000 };
	return 0;
}

static struct mapping_runs *make(uint32_t capacity)
{
	struct mapping_runs *runs = NULL;

	assert_int_equal(mapping_runs__new(capacity, &runs), 0);
	return runs;
}

static struct mapping_run *get(struct mapping_runs *runs, uint32_t n)
{
	struct mapping_run *run = NULL;

	assert_int_equal(mapping_runs__alloc(runs, 0, n, NULL, &run), 0);
	assert_int_equal(run->n, n);
	assert_int_equal(run->refs, 1);
	return run;
}

static void expect_full(struct mapping_runs *runs, uint32_t n)
{
	struct mapping_run *run = (void *)runs;

	assert_int_equal(mapping_runs__alloc(runs, 0, n, NULL, &run), -ENOSPC);
	assert_ptr_equal(run, runs);
}

static void test_empty_run(void **state)
{
	struct mapping_runs *runs = make(64);
	struct mapping_run *run = get(runs, 0);

	assert_int_equal(runs->used_chunks * CHUNK, 0);
	mapping_runs__unref(runs, run);
	mapping_runs__unref(runs, NULL);
	mapping_runs__free(runs);
	mapping_runs__free(NULL);
}

static void test_disjoint(void **state)
{
	struct mapping_runs *runs = make(1024);
	struct mapping_run *held[16];
	uint8_t owner[1024] = { 0 };

	for (unsigned i = 0; i < 16; i++) {
		held[i] = get(runs, 1 + i * 4);
		assert_true(held[i]->first + held[i]->n <= 1024);
		for (uint32_t at = held[i]->first; at < held[i]->first + held[i]->n; at++) {
			assert_int_equal(owner[at], 0);
			owner[at] = 1;
		}
	}
	for (unsigned i = 0; i < 16; i++)
		mapping_runs__unref(runs, held[i]);
	mapping_runs__free(runs);
}

static void test_bounds(void **state)
{
	struct mapping_runs *runs = make(64);
	struct mapping_run *whole;

	expect_full(runs, 65);
	expect_full(runs, UINT32_MAX - 64);
	whole = get(runs, 64);
	assert_int_equal(whole->first, 0);
	assert_int_equal(runs->used_chunks * CHUNK, 64);
	expect_full(runs, 1);
	mapping_runs__unref(runs, get(runs, 0));
	mapping_runs__unref(runs, whole);
	mapping_runs__free(runs);
}

/* What was freed is used again only when more than the grace period has gone by, and the oldest first. */
static void test_grace(void **state)
{
	struct mapping_runs *runs = make(64);
	struct mapping_run *a = get(runs, 32), *b = get(runs, 32);

	mapping_runs__unref(runs, a);
	expect_full(runs, 1);
	assert_int_equal(runs->used_chunks * CHUNK, 64);
	now_ns += GRACE_NS / 2;
	mapping_runs__unref(runs, b);
	now_ns += GRACE_NS / 2;
	expect_full(runs, 1); /* to the nanosecond: not more than the period */
	now_ns++;
	a = get(runs, 32);
	assert_int_equal(a->first, 0);
	expect_full(runs, 1);
	now_ns += GRACE_NS / 2;
	b = get(runs, 17);
	assert_int_equal(b->first, 32);
	assert_int_equal(runs->used_chunks * CHUNK, 64);
	mapping_runs__unref(runs, b);
	mapping_runs__unref(runs, a);
	/* The list of those that wait was empty in between. */
	now_ns += GRACE_NS + 1;
	a = get(runs, 64);
	mapping_runs__unref(runs, a);
	mapping_runs__free(runs);
}

static void test_references(void **state)
{
	struct mapping_runs *runs = make(32);
	struct mapping_run *run = get(runs, 32);

	run->refs++; /* as process_table does for a forked child */
	mapping_runs__unref(runs, run);
	now_ns += 2 * GRACE_NS;
	expect_full(runs, 1);
	mapping_runs__unref(runs, run);
	expect_full(runs, 1);
	now_ns += 2 * GRACE_NS;
	mapping_runs__unref(runs, get(runs, 32));
	mapping_runs__free(runs);
}

/* A run never goes over the end of the array: a gap at the end and one at the beginning are two. */
static void test_no_wrap(void **state)
{
	struct mapping_runs *runs = make(64);
	struct mapping_run *a = get(runs, 16), *b = get(runs, 32), *c = get(runs, 16);

	mapping_runs__unref(runs, a);
	mapping_runs__unref(runs, c);
	now_ns += 2 * GRACE_NS;
	expect_full(runs, 32);
	assert_int_equal(runs->used_chunks * CHUNK, 32);
	a = get(runs, 16);
	c = get(runs, 16);
	assert_int_not_equal(a->first, c->first);
	mapping_runs__unref(runs, a);
	mapping_runs__unref(runs, b);
	mapping_runs__unref(runs, c);
	mapping_runs__free(runs);
}

/* Many rounds of random sizes: no two living runs share an entry, and all comes back at the end. */
static void test_churn(void **state)
{
	struct mapping_runs *runs = make(4096);
	struct mapping_run *held[64] = { NULL };
	static uint8_t used[4096];
	uint32_t seed = 12345, full = 0;

	for (unsigned round = 0; round < 20000; round++) {
		struct mapping_run **place = &held[(seed = seed * 1103515245 + 12345) >> 26];

		now_ns += GRACE_NS / 16;
		if (*place) {
			for (uint32_t i = 0; i < (*place)->n; i++)
				used[(*place)->first + i] = 0;
			mapping_runs__unref(runs, *place);
			*place = NULL;
			continue;
		}
		if (mapping_runs__alloc(runs, 0, (seed >> 8) % 200, NULL, place)) {
			full++;
			continue;
		}
		for (uint32_t i = 0; i < (*place)->n; i++) {
			assert_int_equal(used[(*place)->first + i], 0);
			used[(*place)->first + i] = 1;
		}
	}
	assert_true(full > 0 && full < 10000);
	for (unsigned i = 0; i < 64; i++)
		mapping_runs__unref(runs, held[i]);
	now_ns += 2 * GRACE_NS;
	mapping_runs__unref(runs, get(runs, 4096));
	mapping_runs__free(runs);
}

/* A quarter for one user, three for all but root, and all for root. */
static void test_shares(void **state)
{
	struct mapping_runs *runs = make(64 * CHUNK);
	struct mapping_run *run[4], *none = NULL;

	for (uid_t uid = 1; uid <= 3; uid++) {
		assert_int_equal(mapping_runs__alloc(runs, uid, 16 * CHUNK, NULL, &run[uid]), 0);
		assert_int_equal(mapping_runs__alloc(runs, uid, 1, NULL, &none), -ENOSPC);
	}
	assert_int_equal(mapping_runs__alloc(runs, 4, 1, NULL, &none), -ENOSPC);
	assert_int_equal(mapping_runs__alloc(runs, 0, 16 * CHUNK, NULL, &run[0]), 0);
	/* What one gives back is anybody's, after the time of grace. */
	mapping_runs__unref(runs, run[2]);
	now_ns += 2 * GRACE_NS;
	assert_int_equal(mapping_runs__alloc(runs, 4, 16 * CHUNK, NULL, &run[2]), 0);
	for (unsigned i = 0; i < 4; i++)
		mapping_runs__unref(runs, run[i]);
	mapping_runs__free(runs);
}

/* A process with more than half of what its user may have gets other mappings. */
static void test_replaced(void **state)
{
	struct mapping_runs *runs = make(64 * CHUNK);
	struct mapping_run *a, *b, *none = NULL;

	assert_int_equal(mapping_runs__alloc(runs, 1, 16 * CHUNK, NULL, &a), 0);
	assert_int_equal(mapping_runs__alloc(runs, 1, 17 * CHUNK, a, &none), -ENOSPC);
	assert_int_equal(mapping_runs__alloc(runs, 1, 12 * CHUNK, a, &b), 0);
	mapping_runs__unref(runs, a);
	assert_int_equal(user_shares__used(&runs->shares, 1), 12);
	/* What was freed and cannot be reused yet is the user's still. */
	assert_int_equal(user_shares__used(&runs->held, 1), 28);
	assert_int_equal(mapping_runs__alloc(runs, 1, 12 * CHUNK, b, &none), -EAGAIN);
	assert_int_equal(user_shares__used(&runs->shares, 1), 12);
	assert_int_equal(mapping_runs__alloc(runs, 1, 5 * CHUNK, NULL, &none), -ENOSPC);
	now_ns += 2 * GRACE_NS;
	assert_int_equal(mapping_runs__alloc(runs, 1, 12 * CHUNK, b, &a), 0);
	mapping_runs__unref(runs, b);
	/* One that another process has too keeps its part of the share. */
	a->refs++;
	now_ns += 2 * GRACE_NS;
	assert_int_equal(mapping_runs__alloc(runs, 1, 5 * CHUNK, a, &none), -ENOSPC);
	assert_int_equal(mapping_runs__alloc(runs, 1, 4 * CHUNK, a, &b), 0);
	mapping_runs__unref(runs, a);
	mapping_runs__unref(runs, a);
	mapping_runs__unref(runs, b);
	now_ns += 2 * GRACE_NS;
	mapping_runs__unref(runs, get(runs, 0));
	assert_int_equal(runs->shares.all, 0);
	assert_int_equal(runs->held.all, 0);
	mapping_runs__free(runs);
}

/* Runs that are made and freed at once leave other users their part. */
static void test_churn_of_a_user(void **state)
{
	struct mapping_runs *runs = make(64 * CHUNK);
	struct mapping_run *run = NULL;
	int ret = 0;

	for (unsigned i = 0; i < 64 && !ret; i++) {
		ret = mapping_runs__alloc(runs, 1, 4 * CHUNK, NULL, &run);
		if (!ret)
			mapping_runs__unref(runs, run);
	}
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(runs->used_chunks, 32);
	assert_int_equal(mapping_runs__alloc(runs, 2, 16 * CHUNK, NULL, &run), 0);
	mapping_runs__unref(runs, run);
	mapping_runs__free(runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_run),  cmocka_unit_test(test_disjoint),
		cmocka_unit_test(test_bounds),     cmocka_unit_test(test_grace),
		cmocka_unit_test(test_references), cmocka_unit_test(test_no_wrap),
		cmocka_unit_test(test_churn),      cmocka_unit_test(test_shares),
		cmocka_unit_test(test_replaced),   cmocka_unit_test(test_churn_of_a_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
