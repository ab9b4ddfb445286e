// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/os/user_shares.h"

static void one_and_all(void **state)
{
	struct user_shares s = user_shares__of(100);

	assert_true(user_shares__take(&s, 1, 25));
	assert_false(user_shares__take(&s, 1, 1));
	assert_true(user_shares__take(&s, 2, 20));
	assert_false(user_shares__take(&s, 2, 6));
	assert_true(user_shares__take(&s, 3, 25));
	assert_true(user_shares__take(&s, 4, 5));
	assert_false(user_shares__take(&s, 5, 1));
	assert_int_equal(s.all, 75);
	assert_true(user_shares__take(&s, 0, 1000000));
	user_shares__give(&s, 0, 1000000);
	user_shares__give(&s, 1, 10);
	assert_int_equal(user_shares__used(&s, 1), 15);
	assert_true(user_shares__take(&s, 5, 10));
	assert_false(user_shares__take(&s, 1, 1));
	user_shares__reset(&s);
	assert_int_equal(user_shares__used(&s, 1), 0);
	assert_false(user_shares__take(&s, 1, UINT32_MAX));
	assert_true(user_shares__take(&s, 1, 0));
	user_shares__reset(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_and_all) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
