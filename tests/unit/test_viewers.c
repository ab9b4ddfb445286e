// SPDX-License-Identifier: GPL-2.0-or-later
/* What is hidden of root's target from the user whose process it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "daemon/targets/viewers.h"

static const struct caller root = { 0, 0 }, user = { 1001, 1001 }, other = { 1002, 1002 };

/* Whether it is hidden from the caller; -EPERM: all is. */
static int hidden(const struct target *t, struct caller caller, pid_t pid)
{
	struct u64_table found = { 0 };
	uint32_t unused;
	int ret = viewers__hidden_from(t, caller, &found);

	if (!ret)
		ret = u64_table__get(&found, (uint64_t)pid, &unused);
	u64_table__release(&found);
	return ret;
}

static void test_hidden_from_the_user(void **state)
{
	struct target t = { .info.viewer = user };

	assert_false(viewers__hide_any(&t));
	viewers__hide(&t, 10);
	viewers__hide(&t, 10);
	viewers__inherit(&t, 11, 10);
	viewers__inherit(&t, 13, 12);
	assert_true(viewers__hide_any(&t));
	assert_int_equal(t.hidden.n, 2);
	assert_int_equal(hidden(&t, user, 10), 1);
	assert_int_equal(hidden(&t, user, 11), 1);
	assert_int_equal(hidden(&t, user, 12), 0);
	assert_int_equal(hidden(&t, user, 13), 0);
	assert_int_equal(hidden(&t, root, 10), 0);
	assert_int_equal(hidden(&t, other, 12), -EPERM);
	u64_table__release(&t.hidden);
}

static void test_who_hides_nothing(void **state)
{
	struct target of_user = { .info.viewer = user, .caller = user }, of_root = { .info.viewer = root };

	viewers__hide(&of_user, 10);
	viewers__hide(&of_root, 10);
	assert_false(viewers__hide_any(&of_user));
	assert_false(viewers__hide_any(&of_root));
	assert_int_equal(hidden(&of_user, user, 10), 0);
	assert_int_equal(hidden(&of_root, user, 10), -EPERM);
	assert_int_equal(hidden(&of_root, root, 10), 0);
}

static void test_views(void **state)
{
	struct target t = { .info.viewer = user }, view = { .info.viewer = user, .view = true, .of = &t };

	viewers__hide(&t, 10);
	assert_int_equal(hidden(&view, user, 10), 1);
	viewers__keep(&view);
	view.of = NULL;
	u64_table__release(&t.hidden);
	assert_int_equal(hidden(&view, user, 10), 1);
	u64_table__release(&view.hidden);
}

/* By /proc: this process is its user's own, if anybody's; one that has ended is nobody's to hide. */
static void test_check(void **state)
{
	struct target t = { .info.viewer = { getuid() + 1, getgid() } };

	viewers__check(&t, getpid());
	assert_int_equal(t.hidden.n, 1);
	viewers__check(&t, 1 << 30);
	assert_int_equal(t.hidden.n, 1);
	u64_table__release(&t.hidden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hidden_from_the_user),
		cmocka_unit_test(test_who_hides_nothing),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
