// SPDX-License-Identifier: GPL-2.0-or-later
/* What is in use of a limit, and how often it was met. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/limits.c"

static json_int_t field(const char *name, const char *field)
{
	json_t *all = limits__json(), *one;
	json_int_t value = -1;
	size_t i;

	assert_int_equal(json_array_size(all), LIMIT_COUNT);
	json_array_foreach (all, i, one) {
		assert_int_equal(json_object_size(one), 4);
		if (!strcmp(json_string_value(json_object_get(one, "name")), name) &&
		    json_is_integer(json_object_get(one, field)))
			value = json_integer_value(json_object_get(one, field));
	}
	json_decref(all);
	return value;
}

static void what_is_taken_is_given_back(void **state)
{
	for (int i = 0; i < LIMITS_PROFILES; i++)
		assert_true(limits__take(LIMIT_PROFILES, 1));
	assert_int_equal(field("profiles_at_once", "limit"), LIMITS_PROFILES);
	assert_int_equal(field("profiles_at_once", "now"), LIMITS_PROFILES);
	assert_int_equal(field("profiles_at_once", "hit"), 0);
	assert_false(limits__take(LIMIT_PROFILES, 1));
	assert_int_equal(field("profiles_at_once", "hit"), 1);
	limits__give(LIMIT_PROFILES, 1);
	assert_true(limits__take(LIMIT_PROFILES, 1));
	limits__give(LIMIT_PROFILES, LIMITS_PROFILES);
	assert_int_equal(field("profiles_at_once", "now"), 0);
}

static void sums_do_not_wrap(void **state)
{
	assert_true(limits__take(LIMIT_REPLY_BYTES, 100));
	assert_false(limits__take(LIMIT_REPLY_BYTES, UINT64_MAX));
	assert_false(limits__take(LIMIT_REPLY_BYTES, LIMITS_REPLY_BYTES - 99));
	assert_true(limits__take(LIMIT_REPLY_BYTES, LIMITS_REPLY_BYTES - 100));
	limits__give(LIMIT_REPLY_BYTES, UINT64_MAX);
	assert_int_equal(field("reply_bytes", "now"), 0);
	assert_int_equal(field("reply_bytes", "hit"), 2);
}

static void some_are_not_counted(void **state)
{
	limits__hit(LIMIT_BODY_BYTES, 3);
	assert_int_equal(field("body_bytes", "now"), -1);
	assert_int_equal(field("body_bytes", "hit"), 3);
	limits__set(LIMIT_TARGETS, 7);
	assert_int_equal(field("targets", "now"), 7);
}

static void *give_later(void *unused)
{
	usleep(100 * 1000);
	limits__give(LIMIT_PROFILES, 1);
	return NULL;
}

static void who_waits_gets_what_is_given(void **state)
{
	pthread_t thread;
	uint64_t began_ns;

	assert_true(limits__take(LIMIT_PROFILES, LIMITS_PROFILES));
	began_ns = clock__now_ns();
	assert_false(limits__wait(LIMIT_PROFILES, 1, 50));
	assert_true(clock__now_ns() - began_ns >= 45000000);
	assert_int_equal(pthread_create(&thread, NULL, give_later, NULL), 0);
	assert_true(limits__wait(LIMIT_PROFILES, 1, 20000));
	pthread_join(thread, NULL);
	limits__give(LIMIT_PROFILES, LIMITS_PROFILES);
}

/* One user has half of the turns, all but root three of four. */
static void of_users(void **state)
{
	struct so_error err;

	assert_true(limits__take_of(LIMIT_PROFILES, 1000, 1));
	assert_int_equal(limits__wait_profile(1000, &err), 0);
	assert_false(limits__take_of(LIMIT_PROFILES, 1000, 1));
	assert_true(limits__take_of(LIMIT_PROFILES, 1001, 1));
	assert_false(limits__take_of(LIMIT_PROFILES, 1002, 1));
	assert_true(limits__take_of(LIMIT_PROFILES, 0, 1));
	assert_false(limits__take_of(LIMIT_PROFILES, 0, 1));
	assert_int_equal(refuse_profile(1000, &err), -EBUSY);
	assert_string_equal(err.text, "2 profiles are being built for you already: try again later");
	assert_int_equal(refuse_profile(1002, &err), -EBUSY);
	assert_string_equal(err.text, "3 profiles are being built for users already: try again later");
	assert_int_equal(refuse_profile(0, &err), -EBUSY);
	assert_string_equal(err.text, "4 profiles are being built already: try again later");
	limits__give_of(LIMIT_PROFILES, 1000, 2);
	assert_true(limits__take_of(LIMIT_PROFILES, 1002, 1));
	limits__give_of(LIMIT_PROFILES, 1001, 1);
	limits__give_of(LIMIT_PROFILES, 1002, 1);
	limits__give_of(LIMIT_PROFILES, 0, 1);
	assert_true(limits__take_of(LIMIT_REPLY_BYTES, 1000, LIMITS_REPLY_BYTES / 4));
	assert_false(limits__take_of(LIMIT_REPLY_BYTES, 1000, 1));
	assert_true(limits__take_of(LIMIT_REPLY_BYTES, 0, LIMITS_REPLY_BYTES / 2));
	limits__give_of(LIMIT_REPLY_BYTES, 1000, LIMITS_REPLY_BYTES / 4);
	limits__give_of(LIMIT_REPLY_BYTES, 0, LIMITS_REPLY_BYTES / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_taken_is_given_back),
		cmocka_unit_test(sums_do_not_wrap),
		cmocka_unit_test(some_are_not_counted),
		cmocka_unit_test(who_waits_gets_what_is_given),
		cmocka_unit_test(of_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
