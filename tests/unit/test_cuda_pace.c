// SPDX-License-Identifier: GPL-2.0-or-later
/* Targets that wait often: how long it takes them from wait to wait, with probes and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "daemon/cuda/cuda_pace.h"

/* Times on and off of 10 and 100 ms, of so much from wait to wait; how many fall into one follows from where the last ended. */
static struct cuda_pace pace_of(double off_ns, double on_ns, double taken, unsigned times)
{
	struct cuda_pace pace = { 0 };
	double off = 0, on = 0.3;

	for (unsigned i = 0; i < times; i++) {
		off += 1e8 / off_ns;
		cuda_pace__add_off(&pace, 1e8, floor(off));
		off -= floor(off);
		on += 1e7 / on_ns;
		cuda_pace__add_on(&pace, 1e7, floor(on), taken * 1e7, 2e7);
		on -= floor(on);
	}
	return pace;
}

static void what_the_probes_take_is_lost(void **state)
{
	static const struct {
		double off, on, taken, factor, error;
	} of[] = {
		{ 1e6, 1.5e6, 0.3333, 1, 0.1 },     /* as calibrated */
		{ 1e6, 1.75e6, 0.3333, 1.29, 0.1 }, /* more than that */
		{ 1e6, 1e6, 0.3333, 0, 0.15 },      /* there was time to spare */
		{ 2e5, 2e6, 0.9, 1, 0.06 },         /* hardly anything but probes */
		{ 8e6, 10e6, 0.2, 1, 0.6 },         /* few waits */
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct cuda_pace pace = pace_of(of[i].off, of[i].on, of[i].taken, 60);
		struct cuda_loss loss;

		assert_true(cuda_pace__loss(&pace, &loss));
		print_message("%.2f +- %.2f\n", loss.factor, loss.error);
		assert_true(fabs(loss.factor - of[i].factor) <= loss.error && loss.error <= of[i].error);
		assert_true(loss.error >= 0.05 && loss.chance == loss.error);
	}
}

static void what_tells_nothing_is_not_told(void **state)
{
	struct cuda_pace pace = { 0 };
	struct cuda_loss loss;

	assert_false(cuda_pace__loss(&pace, &loss));
	pace = pace_of(1e6, 1.5e6, 0.3333, 2); /* too short */
	assert_false(cuda_pace__loss(&pace, &loss));
	pace = pace_of(1e8, 1e8, 0.3, 60); /* too few waits */
	assert_false(cuda_pace__loss(&pace, &loss));
	pace = pace_of(1e6, 1.01e6, 0.01, 60); /* too few probes */
	assert_false(cuda_pace__loss(&pace, &loss));
	pace = pace_of(1e6, 6e6, 0.3333, 100); /* it did something else meanwhile */
	assert_false(cuda_pace__loss(&pace, &loss));
	pace = pace_of(6e6, 1e6, 0.3333, 100);
	assert_false(cuda_pace__loss(&pace, &loss));
	/* Time off with no wait at all. */
	pace = (struct cuda_pace){ 0 };
	for (int i = 0; i < 50; i++) {
		cuda_pace__add_off(&pace, 1e8, 0);
		cuda_pace__add_on(&pace, 1e7, 10, 3e6, 2e7);
	}
	assert_false(cuda_pace__loss(&pace, &loss));
}

/* Waits that come in clumps make it less sure. */
static void irregular_waits_tell_less(void **state)
{
	struct cuda_pace regular = pace_of(1e6, 1.5e6, 0.3333, 60), clumps = { 0 };
	struct cuda_loss sure, less;

	for (int i = 0; i < 60; i++) {
		cuda_pace__add_off(&clumps, 1e8, 100);
		cuda_pace__add_on(&clumps, 1e7, i % 3 ? 0 : 20, 3.333e6, 2e7);
	}
	assert_true(cuda_pace__loss(&regular, &sure) && cuda_pace__loss(&clumps, &less));
	assert_true(less.error > 3 * sure.error && fabs(less.factor - 1) <= less.error);
}

static void chance_in_a_time_on_is_left_out(void **state)
{
	struct cuda_pace often = pace_of(1e6, 1.5e6, 0.3333, 60), rare = pace_of(8e6, 10e6, 0.2, 60),
			 none = { 0 };

	assert_true(fabs(cuda_pace__taken(&often, 1e6, 5e5) - 3.333e5) < 1);
	assert_true(cuda_pace__taken(&rare, 1e6, 5e5) == 5e5);
	assert_true(cuda_pace__taken(&none, 1e6, 5e5) == 5e5);
	/* Of times on half of which is waited. */
	assert_true(fabs(cuda_pace__taken_of_active(&often) - 0.3333) < 1e-6);
	assert_true(fabs(cuda_pace__taken_of_all(&often) - 0.3333 / 2) < 1e-6);
	assert_true(cuda_pace__taken_of_active(&none) == 0 && cuda_pace__taken_of_all(&none) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_probes_take_is_lost),
		cmocka_unit_test(what_tells_nothing_is_not_told),
		cmocka_unit_test(irregular_waits_tell_less),
		cmocka_unit_test(chance_in_a_time_on_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
