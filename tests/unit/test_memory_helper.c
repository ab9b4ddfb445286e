// SPDX-License-Identifier: GPL-2.0-or-later
/* Where no process can be started that reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/os/memory_helper.c"

static unsigned n_started, n_logged;

int helper_process__start(struct helper_process *helper, const char *program, const char *argument, int fd)
{
	__atomic_add_fetch(&n_started, 1, __ATOMIC_RELAXED);
	return -EAGAIN;
}

void helper_process__end(struct helper_process *helper)
{
}

void log__error(const char *fmt, ...)
{
	__atomic_add_fetch(&n_logged, 1, __ATOMIC_RELAXED);
}

static void settle(void)
{
	unsigned n = 1;

	for (unsigned i = 0; i < 10000 && n; i++) {
		pthread_mutex_lock(&helpers.lock);
		n = helpers.n_starting;
		pthread_mutex_unlock(&helpers.lock);
		usleep(1000);
	}
	assert_int_equal(n, 0);
}

/* The daemon reads by itself, which is logged once. */
static void none_can_be_started(void **state)
{
	char text[8] = "there", got[8] = "";

	memory_helper__enable(true);
	settle();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(memory_helper__read(getpid(), (uintptr_t)text, got, sizeof(got)), sizeof(got));
		settle();
	}
	assert_string_equal(got, text);
	assert_true(n_started > SPARE);
	assert_int_equal(n_logged, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(none_can_be_started) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
