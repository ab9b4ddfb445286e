// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/targets/targets.h"

static struct target all[SO_MAX_SLOTS + 1];
static struct targets table;

static int setup(void **state)
{
	for (unsigned i = 0; i <= SO_MAX_SLOTS; i++)
		all[i] = (struct target){ .info = {
						  .state = TARGET_SAMPLING, .rate_hz = 99, .pid = (pid_t)(1000 + i) } };
	table = (struct targets){ 0 };
	return 0;
}

static void fill(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(targets__add(&table, &all[i]), 0);
}

static void test_slots_and_numbers(void **state)
{
	uint64_t moves;

	fill(SO_MAX_SLOTS);
	assert_int_equal(targets__add(&table, &all[SO_MAX_SLOTS]), -ENOSPC);
	assert_ptr_equal(targets__find(&table, 1), &all[0]);
	assert_ptr_equal(targets__of_slot(&table, all[5].slot), &all[5]);
	assert_null(targets__of_slot(&table, SO_MAX_SLOTS));
	moves = targets__moves(&table);
	targets__remove(&table, &all[5]);
	assert_true(targets__moves(&table) > moves);
	assert_null(targets__find(&table, all[5].id));
	assert_int_equal(targets__add(&table, &all[SO_MAX_SLOTS]), 0);
	/* The slot again, but never the number. */
	assert_int_equal(all[SO_MAX_SLOTS].slot, all[5].slot);
	assert_int_equal(all[SO_MAX_SLOTS].id, SO_MAX_SLOTS + 1);
}

static void test_doomed_ones_are_found_by_their_windows_alone(void **state)
{
	fill(1);
	assert_null(targets__find_windowed(&table, 1));
	assert_int_equal(windows__begin(&all[0].samples, 1, 1), 0);
	all[0].users = 1;
	all[0].doomed = true;
	assert_null(targets__find(&table, 1));
	assert_null(targets__find_pid(&table, 1000));
	assert_ptr_equal(targets__find_windowed(&table, 1), &all[0]);
	assert_int_equal(target__readers(&all[0]), 0);
	all[0].users = 2;
	assert_int_equal(target__readers(&all[0]), 1);
	windows__end(&all[0].samples);
}

static void test_each(void **state)
{
	struct target *t;
	unsigned n = 0;

	fill(3);
	targets__remove(&table, &all[1]);
	TARGETS_EACH(t, &table)
	assert_ptr_equal(t, &all[2 * n++]);
	assert_int_equal(n, 2);
}

static void test_rates(void **state)
{
	fill(3);
	all[1].info.rate_hz = 50;
	all[2].info.state = TARGET_ENDED;
	assert_int_equal(targets__rate_sum(&table), 149);
	assert_true(targets__use_rate(&table, 50));
	all[1].info.state = TARGET_ENDED;
	assert_false(targets__use_rate(&table, 50));
}

static void end(struct target *t, uint64_t end_ns)
{
	t->info.state = TARGET_ENDED;
	t->end_ns = end_ns;
}

static void test_the_oldest_that_has_ended(void **state)
{
	fill(5);
	assert_null(targets__oldest_ended(&table, false));
	end(&all[0], 30);
	end(&all[1], 10);
	end(&all[2], 20);
	end(&all[3], 5);
	all[3].view = true;
	all[1].users = 1;
	assert_ptr_equal(targets__oldest_ended(&table, false), &all[2]);
	assert_ptr_equal(targets__oldest_ended(&table, true), &all[3]);
	assert_null(targets__oldest_kept(&table));
	all[0].info.keep = true;
	assert_ptr_equal(targets__oldest_kept(&table), &all[0]);
	assert_int_equal(targets__count(&table, true), 1);
	assert_int_equal(targets__count(&table, false), 4);
}

static void test_shares_of_users(void **state)
{
	struct so_error err = { "" };

	fill(ENGINE_MAX_TARGETS_USERS);
	for (unsigned i = 0; i < ENGINE_MAX_TARGETS_USER - 1; i++)
		all[i].caller.uid = 1001;
	assert_int_equal(targets__check_share(&table, 1001, false, &err), 0);
	all[ENGINE_MAX_TARGETS_USER - 1].caller.uid = 1001;
	assert_int_equal(targets__check_share(&table, 1001, false, &err), -ENOSPC);
	assert_int_equal(targets__check_share(&table, 1002, false, &err), 0);
	for (unsigned i = ENGINE_MAX_TARGETS_USER; i < ENGINE_MAX_TARGETS_USERS; i++)
		all[i].caller.uid = 1002 + i;
	assert_int_equal(targets__check_share(&table, 1002, false, &err), -ENOSPC);
	/* Views have shares of their own. */
	assert_int_equal(targets__check_share(&table, 1001, true, &err), 0);
}

static void test_rates_of_users(void **state)
{
	struct so_error err = { "" };

	fill(6);
	for (unsigned i = 0; i < 6; i++) {
		all[i].caller.uid = i < 3 ? 1001 : 1002;
		all[i].info.rate_hz = 9000;
	}
	all[2].info.rate_hz = 1000;
	/* Equal rates count once. */
	assert_int_equal(targets__check_rates(&table, 1001, 10000, &err), 0);
	assert_int_equal(targets__check_rates(&table, 1001, 9000, &err), 0);
	all[1].info.rate_hz = 9500;
	assert_int_equal(targets__check_rates(&table, 1001, 501, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "20000 Hz is the most"));
	assert_int_equal(targets__check_rates(&table, 1001, 500, &err), 0);
	assert_int_equal(targets__check_rates(&table, 1001, 9500, &err), 0);
	/* Of root, views and what has ended nothing counts. */
	end(&all[2], 1);
	assert_int_equal(targets__check_rates(&table, 1001, 1500, &err), 0);
	all[1].view = true;
	assert_int_equal(targets__check_rates(&table, 1001, 10000, &err), 0);
	all[1].view = false;
	/* Of all users together. */
	all[3].info.rate_hz = 9600;
	all[4].info.rate_hz = 9700;
	assert_int_equal(targets__check_rates(&table, 1003, 2201, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "40000 Hz is the most"));
	assert_int_equal(targets__check_rates(&table, 1003, 2200, &err), 0);
	all[0].caller.uid = all[5].caller.uid = 0;
	assert_int_equal(targets__check_rates(&table, 1003, 10000, &err), 0);
}

/* What is free is shared by those that are sampled; all together keep the bound. */
static void test_memory_is_shared(void **state)
{
	fill(3);
	end(&all[2], 1);
	all[0].samples.acc.bytes = ENGINE_ALL_SAMPLES_BYTES / 2;
	all[2].samples.acc.bytes = ENGINE_ALL_SAMPLES_BYTES / 2 - 2000;
	assert_int_equal(targets__bytes(&table), ENGINE_ALL_SAMPLES_BYTES - 2000);
	targets__share_bytes(&table);
	assert_int_equal(all[1].samples.acc.max_bytes, 1000);
	/* No more than a target may have alone. */
	assert_int_equal(all[0].samples.acc.max_bytes, SAMPLES_BYTES);
	assert_int_equal(all[2].samples.acc.max_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_slots_and_numbers, setup),
		cmocka_unit_test_setup(test_doomed_ones_are_found_by_their_windows_alone, setup),
		cmocka_unit_test_setup(test_each, setup),
		cmocka_unit_test_setup(test_rates, setup),
		cmocka_unit_test_setup(test_the_oldest_that_has_ended, setup),
		cmocka_unit_test_setup(test_shares_of_users, setup),
		cmocka_unit_test_setup(test_rates_of_users, setup),
		cmocka_unit_test_setup(test_memory_is_shared, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
