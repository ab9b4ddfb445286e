// SPDX-License-Identifier: GPL-2.0-or-later
/* The latest calls of a target, and what a copy has of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/targets/call_times.h"

/* The n-th begins at 100 n, and takes 60. */
static void add(struct call_times *c, unsigned n)
{
	const struct so_call_record record = {
		.type = SO_RECORD_CALL, .tgid = 1, .tid = n, .begin_ns = 100ull * n, .ns = 60
	};

	call_times__add(c, &record);
}

static void a_copy_has_what_ended_later(void **state)
{
	struct call_times c = { .n = 0 }, copy;

	assert_int_equal(call_times__copy(&c, 0, &copy), 0);
	assert_int_equal(copy.n, 0);
	assert_int_equal(call_times__bytes(&c), 0);
	for (unsigned i = 1; i <= 5; i++)
		add(&c, i);
	/* One is under way then, and one has just ended. */
	assert_int_equal(call_times__copy(&c, 330, &copy), 0);
	assert_int_equal(copy.n, 3);
	assert_int_equal(copy.ring[0].tid, 3);
	assert_int_equal(copy.ring[2].tid, 5);
	call_times__release(&copy);
	assert_int_equal(call_times__copy(&c, 360, &copy), 0);
	assert_int_equal(copy.n, 2);
	assert_int_equal(copy.gone_ns, 0);
	call_times__release(&copy);
	call_times__release(&c);
}

static void the_oldest_go_and_it_is_known_until_when(void **state)
{
	struct call_times c = { .n = 0 }, copy;

	for (unsigned i = 1; i <= CALL_TIMES_ROOM + 3; i++)
		add(&c, i);
	assert_int_equal(call_times__copy(&c, 0, &copy), 0);
	assert_int_equal(copy.n, CALL_TIMES_ROOM);
	assert_int_equal(copy.gone_ns, 360);
	for (unsigned i = 0; i < copy.n; i++)
		assert_int_equal(copy.ring[i].tid, i + 4);
	assert_int_equal(call_times__bytes(&c), CALL_TIMES_ROOM * sizeof(struct call_time));
	call_times__release(&copy);
	call_times__release(&c);
	assert_int_equal(call_times__bytes(&c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_what_ended_later),
		cmocka_unit_test(the_oldest_go_and_it_is_known_until_when),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
