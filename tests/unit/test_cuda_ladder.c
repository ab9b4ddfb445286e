// SPDX-License-Identifier: GPL-2.0-or-later
/* Who is on which rung, by simulated rates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "daemon/cuda/cuda_ladder.h"
#include "daemon/cuda/cuda_running.h"
#include "daemon/cuda/cuda_stack_plan.h"

#define LAUNCH SO_CUDA_UNIT(SO_CUDA_OF_RUNTIME, SO_CUDA_LAUNCH)
#define NESTED SO_CUDA_UNIT(SO_CUDA_OF_DRIVER, SO_CUDA_LAUNCH)
#define WAIT   SO_CUDA_UNIT(SO_CUDA_OF_RUNTIME, SO_CUDA_SYNC)
#define ALLOC  SO_CUDA_UNIT(SO_CUDA_OF_RUNTIME, SO_CUDA_ALLOC)

#define TIMED   2000.0
#define COUNTED 600.0
#define INSIDE  500.0
#define ALLOWED 10e6 /* 1 % of a CPU */

static struct cuda_ladder ladder;
static struct cuda_ladder_unit units[SO_CUDA_UNITS];

static int setup(void **state)
{
	ladder = (struct cuda_ladder){ 0 };
	for (unsigned i = 0; i < SO_CUDA_UNITS; i++)
		units[i] = (struct cuda_ladder_unit){ .has_counted = i != ALLOC };
	return 0;
}

/* Launches by a runtime, each with a nested one, and calls that nest nothing. */
static void set_rate(unsigned unit, double rate)
{
	units[unit].full = rate * TIMED;
	units[unit].counted = rate * COUNTED;
	if (unit == LAUNCH)
		units[NESTED] = (struct cuda_ladder_unit){
			.full = rate * INSIDE, .counted = rate * INSIDE, .nested = 1, .has_counted = true
		};
}

static void decide(double seconds)
{
	for (double t = 0; t < seconds; t++)
		cuda_ladder__decide(&ladder, units, ALLOWED, 1);
}

static void expect(enum cuda_rung launch, enum cuda_rung nested, enum cuda_rung wait)
{
	assert_string_equal(cuda_ladder__word(ladder.rung[LAUNCH]), cuda_ladder__word(launch));
	assert_string_equal(cuda_ladder__word(ladder.rung[NESTED]), cuda_ladder__word(nested));
	assert_string_equal(cuda_ladder__word(ladder.rung[WAIT]), cuda_ladder__word(wait));
}

static void little_is_timed_in_full(void **state)
{
	set_rate(LAUNCH, 3000);
	set_rate(WAIT, 1000);
	decide(5);
	expect(CUDA_RUNG_FULL, CUDA_RUNG_FULL, CUDA_RUNG_FULL);
	assert_true(ladder.always == 3000 * (TIMED + INSIDE) + 1000 * TIMED && ladder.windowed == 0);
}

/* 8,000 launches a second are exact at 1 %. */
static void many_are_counted(void **state)
{
	set_rate(LAUNCH, 8000);
	set_rate(WAIT, 100);
	decide(1);
	expect(CUDA_RUNG_COUNTED, CUDA_RUNG_FULL, CUDA_RUNG_FULL);
	assert_true(ladder.always <= ALLOWED);
	/* Nested calls tell nothing, and are the first to go when that is not enough. */
	set_rate(LAUNCH, 14000);
	decide(1);
	expect(CUDA_RUNG_COUNTED, CUDA_RUNG_NOT_WATCHED, CUDA_RUNG_FULL);
}

/* More than can be counted: in windows, and waits stay as they are. */
static void too_many_have_windows(void **state)
{
	set_rate(LAUNCH, 100000);
	set_rate(WAIT, 1000);
	decide(1);
	expect(CUDA_RUNG_WINDOWED, CUDA_RUNG_NOT_WATCHED, CUDA_RUNG_FULL);
	assert_true(ladder.always == 1000 * TIMED && ladder.windowed == 100000 * COUNTED);
	/* Where they are the cost themselves they go down too. */
	set_rate(WAIT, 100000);
	decide(1);
	expect(CUDA_RUNG_WINDOWED, CUDA_RUNG_NOT_WATCHED, CUDA_RUNG_WINDOWED);
	assert_true(ladder.always <= CUDA_LADDER_ALWAYS * ALLOWED);
}

static void what_no_window_can_pay_is_not_watched(void **state)
{
	set_rate(LAUNCH, 1000);
	set_rate(WAIT, 20e6);
	decide(1);
	expect(CUDA_RUNG_FULL, CUDA_RUNG_FULL, CUDA_RUNG_NOT_WATCHED);
	assert_int_equal(cuda_ladder__units(&ladder, CUDA_RUNG_NOT_WATCHED), 1u << WAIT);
	set_rate(WAIT, 0);
	decide(CUDA_LADDER_CALM_S);
	expect(CUDA_RUNG_FULL, CUDA_RUNG_FULL, CUDA_RUNG_WINDOWED);
}

/* At once down, slowly up: a rung at a time, and not for a rate that would go down again. */
static void calm_leads_up(void **state)
{
	set_rate(LAUNCH, 100000);
	decide(1);
	set_rate(LAUNCH, 8000);
	decide(CUDA_LADDER_CALM_S - 1);
	expect(CUDA_RUNG_WINDOWED, CUDA_RUNG_NOT_WATCHED, CUDA_RUNG_FULL);
	decide(10);
	/* With the nested ones it would be 8.8 ms of 10, and only seven tenths lead up. */
	expect(CUDA_RUNG_COUNTED, CUDA_RUNG_NOT_WATCHED, CUDA_RUNG_FULL);
	set_rate(LAUNCH, 2000);
	decide(CUDA_LADDER_CALM_S);
	expect(CUDA_RUNG_FULL, CUDA_RUNG_COUNTED, CUDA_RUNG_FULL);
	decide(CUDA_LADDER_CALM_S);
	expect(CUDA_RUNG_FULL, CUDA_RUNG_FULL, CUDA_RUNG_FULL);
}

/* Work of 100 ms in an on-window, and what it took longer by what probes cost. */
static void work_is_slowed_down_by_what_is_not_slept(void **state)
{
	const struct cuda_running_time none = { 0 }, alone = { 40, 0 }, crowded = { 40, 40 }, two = { 200, 0 };

	assert_true(cuda_running__slowdown(&alone, 0, 40, 100) == 0);
	/* 20 of the 40 that it was not asleep. */
	assert_true(cuda_running__slowdown(&alone, 20, 40, 100) == 0.2);
	/* For each ms on a CPU one was waited for it. */
	assert_true(cuda_running__slowdown(&crowded, 20, 40, 100) == 0.4);
	/* Side by side. */
	assert_true(cuda_running__slowdown(&two, 20, 200, 100) == 0.1);
	/* Those that called have ended. */
	assert_true(cuda_running__slowdown(&none, 20, 80, 100) == 0.25);
	assert_true(cuda_running__slowdown(&none, 20, 0, 100) == 1);
	assert_true(cuda_running__slowdown(&alone, 1000, 40, 100) == 1);
}

static void allocations_are_never_just_counted(void **state)
{
	units[ALLOC].full = 2 * ALLOWED;
	decide(1);
	assert_int_equal(ladder.rung[ALLOC], CUDA_RUNG_WINDOWED);
	assert_true(ladder.windowed == 2 * ALLOWED);
	units[ALLOC].full = 0;
	decide(CUDA_LADDER_CALM_S);
	assert_int_equal(ladder.rung[ALLOC], CUDA_RUNG_FULL);
}

/* Whatever the rates are: what is always there is allowed, and what has windows can have them. */
static void all_rates_are_within_the_budget(void **state)
{
	uint64_t random = 7;

	for (unsigned round = 0; round < 20000; round++) {
		if (round % 4 == 0)
			setup(state);
		for (unsigned i = 0; i < SO_CUDA_UNITS; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			units[i].full = random >> 62 ? 0 : exp((double)(random >> 40 & 0xffff) / 4096) * 100;
			units[i].counted = units[i].full * 0.4;
			units[i].nested = random >> 30 & 1 ? 1 : 0;
		}
		cuda_ladder__decide(&ladder, units, ALLOWED, 1);
		assert_true(ladder.always <= ALLOWED);
		/* What is to go up again may have windows for longer. */
		assert_true(round % 4 || ladder.windowed * CUDA_LADDER_LEAST_ON <= ALLOWED - ladder.always + 1);
	}
}

static double stacks_of(const double *rate, const struct cuda_stack_plan *plan, enum so_cuda_kind kind)
{
	return rate[kind] / plan->period[kind];
}

static void stacks_keep_what_is_rare(void **state)
{
	double rate[SO_CUDA_KIND_ROOM] = {
		[SO_CUDA_LAUNCH] = 5000, [SO_CUDA_COPY] = 1000, [SO_CUDA_SYNC] = 20
	};
	double busy[SO_CUDA_KIND_ROOM] = { [SO_CUDA_SYNC] = 4e8 };
	struct cuda_stack_plan plan;

	cuda_stack_plan__make(rate, busy, INFINITY, &plan);
	assert_false(plan.fewer);
	assert_int_equal(plan.period[SO_CUDA_LAUNCH], 25);
	assert_int_equal(plan.period[SO_CUDA_COPY], 1);
	assert_int_equal(plan.period[SO_CUDA_SYNC], 1);
	assert_int_equal(plan.time_ns, 2000000); /* 200 a second */
	cuda_stack_plan__make(rate, busy, 320, &plan);
	assert_true(plan.fewer);
	assert_int_equal(plan.period[SO_CUDA_SYNC], 1);
	assert_true(stacks_of(rate, &plan, SO_CUDA_LAUNCH) <= 100 &&
		    stacks_of(rate, &plan, SO_CUDA_LAUNCH) > 95);
	assert_true(stacks_of(rate, &plan, SO_CUDA_COPY) <= 100 && stacks_of(rate, &plan, SO_CUDA_COPY) > 90);
	assert_true(plan.time_ns > 3900000 && plan.time_ns < 4100000);
}

/* Of a kind that is not called a burst may come. */
static void nothing_is_called(void **state)
{
	const double none[SO_CUDA_KIND_ROOM] = { 0 };
	struct cuda_stack_plan plan;

	cuda_stack_plan__make(none, none, 100, &plan);
	assert_false(plan.fewer);
	assert_int_equal(plan.period[SO_CUDA_LAUNCH], 100);
	assert_int_equal(plan.period[SO_CUDA_ALLOC], 1);
	assert_int_equal(plan.time_ns, 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(little_is_timed_in_full, setup),
		cmocka_unit_test_setup(many_are_counted, setup),
		cmocka_unit_test_setup(too_many_have_windows, setup),
		cmocka_unit_test_setup(what_no_window_can_pay_is_not_watched, setup),
		cmocka_unit_test_setup(calm_leads_up, setup),
		cmocka_unit_test_setup(allocations_are_never_just_counted, setup),
		cmocka_unit_test_setup(all_rates_are_within_the_budget, setup),
		cmocka_unit_test(work_is_slowed_down_by_what_is_not_slept),
		cmocka_unit_test(stacks_keep_what_is_rare),
		cmocka_unit_test(nothing_is_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
