// SPDX-License-Identifier: GPL-2.0-or-later
/* Where between and beyond the two points of the calibration a target is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "daemon/cuda/cuda_probe_cost.h"

/* As measured in a virtual machine: there a step is a trap to the hypervisor, and caches are no matter. */
static const struct cuda_probe_cost machine = { .pair_ns = 2000,
						.light_ns = 1000,
						.nested_ns = 600,
						.stepped_ns = 10000,
						.floor_ns = 800,
						.program_ns = 90,
						.cold = { .pair_ns = 3600,
							  .light_ns = 2200,
							  .nested_ns = 800,
							  .stepped_ns = 11000,
							  .floor_ns = 1200,
							  .program_ns = 190 } };

static void assert_near(double is, double should)
{
	if (fabs(is - should) > 1e-9 * should)
		fail_msg("%g instead of %g", is, should);
}

static void assert_costs(const struct cuda_probe_cost *is, const struct cuda_probe_cost *should)
{
	assert_near(is->pair_ns, should->pair_ns);
	assert_near(is->light_ns, should->light_ns);
	assert_near(is->nested_ns, should->nested_ns);
	assert_near(is->stepped_ns, should->stepped_ns);
	assert_near(is->floor_ns, should->floor_ns);
	assert_near(is->program_ns, should->program_ns);
}

static void each_cost_has_its_own_way_from_warm_to_cold(void **state)
{
	/* And more behind the probes, up to 0.4 of it, but for what leaves the virtual machine. */
	static const struct cuda_probe_cost half = { .pair_ns = 1.2 * 2800,
						     .light_ns = 1.2 * 1600,
						     .nested_ns = 1.2 * 700,
						     .stepped_ns = 10500,
						     .floor_ns = 1000,
						     .program_ns = 140 },
					    twice = { .pair_ns = 1.4 * 5200,
						      .light_ns = 1.4 * 3400,
						      .nested_ns = 1.4 * 1000,
						      .stepped_ns = 12000,
						      .floor_ns = 1600,
						      .program_ns = 290 };
	struct cuda_probe_cost at = cuda_probe_cost__at(&machine, 140);

	assert_costs(&at, &half);
	assert_near(at.coldness, 0.5);
	at = cuda_probe_cost__at(&machine, 290);
	assert_costs(&at, &twice);
	assert_near(at.coldness, 1);
	at = cuda_probe_cost__at(&machine, 40);
	assert_costs(&at, &machine);
	assert_true(at.coldness == 0);
	at = cuda_probe_cost__at(&machine, NAN);
	assert_costs(&at, &machine);
}

/* Three times the way at most: what an interrupt adds to the time of a program is no cold cache. */
static void costs_have_a_most(void **state)
{
	struct cuda_probe_cost most = cuda_probe_cost__at(&machine, 390),
			       more = cuda_probe_cost__at(&machine, 100000), steep = machine;

	assert_near(most.pair_ns, 1.4 * (2000 + 3 * 1600));
	assert_near(more.pair_ns, most.pair_ns);
	assert_near(more.stepped_ns, 13000);
	steep.cold.pair_ns = 30000;
	assert_near(cuda_probe_cost__at(&steep, 390).pair_ns, 1.4 * 40000);
	/* What does not count costs no more than what does. */
	steep = machine;
	steep.cold.light_ns = 3600;
	assert_near(cuda_probe_cost__at(&steep, 390).light_ns, most.pair_ns);
}

/* Measured with others on the machine, cold calls may seem to cost less than warm ones. */
static void what_is_measured_may_be_disturbed(void **state)
{
	struct cuda_probe_cost disturbed = machine, at;

	disturbed.cold.nested_ns = disturbed.cold.stepped_ns = 0;
	at = cuda_probe_cost__at(&disturbed, 190);
	assert_near(at.nested_ns, 1.4 * 600);
	assert_near(at.stepped_ns, 10000);
	assert_near(at.pair_ns, 1.4 * 3600);
	/* Without a second point all costs grow as the program's time. */
	disturbed.cold.program_ns = 80;
	at = cuda_probe_cost__at(&disturbed, 180);
	assert_near(at.pair_ns, 4000);
	assert_near(at.stepped_ns, 20000);
	assert_near(cuda_probe_cost__at(&disturbed, 9000).pair_ns, 40000);
	/* Nothing was calibrated. */
	at = cuda_probe_cost__at(&(struct cuda_probe_cost){ 0 }, 180);
	assert_true(at.pair_ns == 0 && at.stepped_ns == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_cost_has_its_own_way_from_warm_to_cold),
		cmocka_unit_test(costs_have_a_most),
		cmocka_unit_test(what_is_measured_may_be_disturbed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
