// SPDX-License-Identifier: GPL-2.0-or-later
/* When a thread's name is asked for, and what an answer does to the name that is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/os/limits.h"
#include "daemon/processes/thread_names.h"

#define S    1000000000ull
#define TGID 7

static const char comm[16] = "python3";

/* The thread is seen, and answers so where it is asked. False: it is not asked. */
static bool ask(struct thread_names *names, uint32_t tid, const char *text, uint64_t now_ns)
{
	if (!thread_names__seen(names, TGID, tid, comm, now_ns))
		return false;
	thread_names__set(names, TGID, tid, text, now_ns);
	return true;
}

static void test_is_asked_more_and_more_rarely(void **state)
{
	struct thread_names names = { 0 };
	unsigned asked = 0;

	for (uint64_t s = 1; s <= 256; s++)
		asked += ask(&names, 8, "loader", s * S);
	/* At 1, 2, 4, ... 64 s, then each 64 s. */
	assert_in_range(asked, 8, 11);
	assert_string_equal(thread_names__get(&names, TGID, 8), "loader");
	/* It has another name for the kernel: perhaps also for Python. */
	assert_true(thread_names__seen(&names, TGID, 8, "other\0\0\0\0\0\0\0\0\0\0", 257 * S));
	thread_names__release(&names);
}

static void test_a_name_stays_where_it_cannot_be_read(void **state)
{
	struct thread_names names = { 0 };

	assert_true(ask(&names, 8, "loader", S));
	assert_true(thread_names__seen(&names, TGID, 8, comm, 3 * S));
	thread_names__unread(&names, TGID, 8, 3 * S);
	assert_string_equal(thread_names__get(&names, TGID, 8), "loader");
	/* No sooner than after an answer. */
	assert_false(thread_names__seen(&names, TGID, 8, comm, 4 * S));
	assert_true(ask(&names, 8, NULL, 6 * S));
	assert_string_equal(thread_names__get(&names, TGID, 8), "loader");
	/* Gone, and seen: another thread of its number, which has no name. */
	assert_true(ask(&names, 8, "", 8 * S));
	assert_null(thread_names__get(&names, TGID, 8));
	thread_names__release(&names);
}

static void test_those_of_one_process_are_asked_together(void **state)
{
	uint32_t tids[THREAD_NAMES_AT_ONCE];
	struct thread_names names = { 0 };
	pid_t tgid = 0;

	thread_names__seen(&names, TGID, 8, comm, S);
	thread_names__seen(&names, TGID + 1, 9, comm, S);
	thread_names__seen(&names, TGID, 10, comm, S);
	assert_int_equal(thread_names__due(&names, S, &tgid, tids), 2);
	assert_int_equal(tgid, TGID);
	assert_int_equal(tids[0], 8);
	assert_int_equal(tids[1], 10);
	thread_names__set(&names, TGID, 8, "", S);
	thread_names__set(&names, TGID, 10, "", S);
	assert_int_equal(thread_names__due(&names, S, &tgid, tids), 1);
	assert_int_equal(tids[0], 9);
	thread_names__release(&names);
}

static void test_half_is_forgotten_where_there_are_too_many(void **state)
{
	struct thread_names names = { 0 };

	for (uint32_t tid = 1; tid <= THREAD_NAMES_MAX + 1; tid++)
		ask(&names, tid, "name", tid * S);
	assert_int_equal(names.n, THREAD_NAMES_MAX / 2 + 1);
	assert_null(thread_names__get(&names, TGID, 1));
	assert_string_equal(thread_names__get(&names, TGID, THREAD_NAMES_MAX), "name");
	thread_names__release(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_asked_more_and_more_rarely),
		cmocka_unit_test(test_a_name_stays_where_it_cannot_be_read),
		cmocka_unit_test(test_those_of_one_process_are_asked_together),
		cmocka_unit_test(test_half_is_forgotten_where_there_are_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
