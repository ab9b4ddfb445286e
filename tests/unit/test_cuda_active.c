// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads of which it is known when they wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/cuda/cuda_active.h"

#define MS     1000000ull
#define CALLER 11
#define OTHER  12

/* What the next look is told of any thread. */
static struct {
	enum cuda_active_told told;
	uint64_t away_ns, others;
} answer;

static enum cuda_active_told told(void *context, pid_t tid, uint64_t now, struct cuda_active_waits *waits)
{
	assert_true(tid == CALLER || tid == OTHER);
	*waits = (struct cuda_active_waits){ .ns = answer.away_ns, .others = answer.others };
	return answer.told;
}

static enum cuda_active_told only_caller(void *context, pid_t tid, uint64_t now,
					 struct cuda_active_waits *waits)
{
	return tid == CALLER ? told(context, tid, now, waits) : CUDA_ACTIVE_NEVER;
}

static double look(struct cuda_active *a, uint64_t now, uint64_t away_ns)
{
	answer.told = CUDA_ACTIVE_KNOWN;
	answer.away_ns = away_ns;
	return cuda_active__share(a, now, true, told, NULL);
}

static void near(double value, double expected)
{
	assert_true(value > expected - 1e-9 && value < expected + 1e-9);
}

/* Its time but for what it was away, also when it is asked twice. */
static void one_thread_makes_the_calls(void **state)
{
	struct cuda_active a = { 0 };

	near(look(&a, 5 * MS, 0), 1); /* nobody is known yet */
	near(cuda_active__usual(&a), -1);
	cuda_active__add_calls(&a, CALLER, 100);
	near(look(&a, 5 * MS, 70 * MS), 1);
	near(look(&a, 15 * MS, 72 * MS), 0.8);
	answer.away_ns = 76 * MS;
	near(cuda_active__share(&a, 19 * MS, false, told, NULL), 0);
	near(look(&a, 25 * MS, 78 * MS), 0.4);
	near(look(&a, 35 * MS, 95 * MS), 0); /* more than there was */
	near(look(&a, 45 * MS, 95 * MS), 1);
	near(cuda_active__usual(&a), (0.8 + 0.4 + 0 + 1) / 4);
}

/* Another thread's few calls are none of its own; as many are. */
static void several_threads_make_calls(void **state)
{
	struct cuda_active a = { 0 };

	cuda_active__add_calls(&a, CALLER, 97);
	cuda_active__add_calls(&a, OTHER, 3);
	look(&a, 10 * MS, 0);
	near(look(&a, 20 * MS, 5 * MS), 0.5);
	cuda_active__add_calls(&a, OTHER, 20);
	near(look(&a, 30 * MS, 10 * MS), 1);
	for (int i = 0; i < 60; i++) {
		cuda_active__age(&a);
		cuda_active__add_calls(&a, OTHER, 10);
	}
	near(look(&a, 40 * MS, 5 * MS), 1);
	near(look(&a, 50 * MS, 6 * MS), 0.9);
}

/* More than are remembered: none of them is taken for the one that makes most calls. */
static void very_many_threads_make_calls(void **state)
{
	struct cuda_active a = { 0 };

	for (int i = 0; i < 40 * CUDA_ACTIVE_THREADS; i++)
		cuda_active__add_calls(&a, 1000 + i, 1);
	look(&a, 10 * MS, 0);
	near(look(&a, 20 * MS, 5 * MS), 1);
	for (int i = 0; i < 100; i++)
		cuda_active__age(&a);
	assert_int_equal(a.n, 0);
}

/* What is not known yet is as it usually is; what never will be is taken for time in which calls were made. */
static void some_time_is_not_known(void **state)
{
	struct cuda_active a = { 0 };

	cuda_active__add_calls(&a, CALLER, 100);
	look(&a, 10 * MS, 0);
	cuda_active__interrupt(&a);
	assert_true(look(&a, 20 * MS, 3 * MS) < 0);
	near(look(&a, 30 * MS, 6 * MS), 0.7);
	near(cuda_active__usual(&a), 0.7);
	answer.told = CUDA_ACTIVE_LATER;
	assert_true(cuda_active__share(&a, 40 * MS, true, told, NULL) < 0);
	assert_true(look(&a, 50 * MS, 9 * MS) < 0);
	near(look(&a, 60 * MS, 9 * MS), 1);
	assert_true(look(&a, 70 * MS, 8 * MS) < 0); /* less than before */
	answer.told = CUDA_ACTIVE_NEVER;
	assert_true(cuda_active__share(&a, 80 * MS, true, told, NULL) < 0);
	near(cuda_active__share(&a, 85 * MS, true, told, NULL), 1);
	near(look(&a, 90 * MS, 18 * MS), 1);
	near(look(&a, 100 * MS, 23 * MS), 0.5);
}

static void on(struct cuda_active *a, uint64_t *now, uint64_t waited_ns, uint64_t others, double calls)
{
	answer.told = CUDA_ACTIVE_KNOWN;
	cuda_active__begin_on(a, *now, told, NULL);
	*now += 10 * MS;
	answer.away_ns += waited_ns;
	answer.others += others;
	cuda_active__look_on(a, *now, told, NULL);
	cuda_active__age(a);
	cuda_active__add_calls(a, CALLER, calls * 0.4);
	cuda_active__add_calls(a, OTHER, calls * 0.6);
	cuda_active__end_on(a, calls, 1);
}

/* Whether time that is waited counts as such where two threads make so many calls in a time on of 10 ms. */
static bool is_away(uint64_t waited_ns, uint64_t others, double calls)
{
	struct cuda_active a = { 0 };
	uint64_t now = 10 * MS;
	double share;

	answer.away_ns = answer.others = 0;
	for (int i = 0; i < 20; i++)
		on(&a, &now, waited_ns, others, calls);
	look(&a, now, answer.away_ns);
	share = look(&a, now + 10 * MS, answer.away_ns + 4 * MS);
	near(share, share < 0.9 ? 0.6 : 1);
	return share < 0.9;
}

/* Whether the others make calls while one waits is counted: of a few calls, or of waits that are short, it is not known. */
static void threads_may_wait_for_one_that_waits(void **state)
{
	assert_true(is_away(5 * MS, 0, 100));
	assert_true(is_away(5 * MS, 1, 100));
	assert_false(is_away(5 * MS, 3, 100));
	assert_false(is_away(5 * MS, 50, 100));
	assert_true(is_away(MS, 9, 1000));
	assert_false(is_away(MS, 15, 1000)); /* of 100 that would be */
	assert_false(is_away(5 * MS, 0, 1));
	assert_false(is_away(MS / 10, 0, 100));
}

/* One that makes no such calls, beside threads that cannot be asked; and then all are idle for long. */
static void threads_may_do_nothing_but_wait(void **state)
{
	struct cuda_active a = { 0 };
	uint64_t now = 10 * MS;

	answer.told = CUDA_ACTIVE_KNOWN;
	answer.away_ns = answer.others = 0;
	for (int i = 0; i < 20; i++) {
		cuda_active__begin_on(&a, now, only_caller, NULL);
		now += 10 * MS;
		answer.away_ns += 5 * MS;
		cuda_active__look_on(&a, now, only_caller, NULL);
		cuda_active__age(&a);
		cuda_active__add_calls(&a, CALLER, 0);
		for (int k = 0; k < 4; k++)
			cuda_active__add_calls(&a, 1000 + k, 50);
		cuda_active__end_on(&a, 200, 1);
	}
	look(&a, now, answer.away_ns);
	assert_int_equal(a.tid, CALLER);
	cuda_active__change_kinds(&a);
	near(look(&a, now + 10 * MS, answer.away_ns + 9 * MS), 1);
	assert_int_equal(a.tid, 0);
	for (int i = 0; i < 100; i++)
		cuda_active__age(&a);
	assert_int_equal(a.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_makes_the_calls),
		cmocka_unit_test(several_threads_make_calls),
		cmocka_unit_test(very_many_threads_make_calls),
		cmocka_unit_test(some_time_is_not_known),
		cmocka_unit_test(threads_may_wait_for_one_that_waits),
		cmocka_unit_test(threads_may_do_nothing_but_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
