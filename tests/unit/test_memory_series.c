// SPDX-License-Identifier: GPL-2.0-or-later
/* What is resident over time: read from /proc, kept within a bound, written as a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/memory/memory_series.h"

#define MS 1000000ull

static void add(struct memory_series *s, uint64_t ms)
{
	const struct memory_point point = { ms * MS, ms << 20, 2 << 20, 3 << 20, 4 << 10 };

	assert_int_equal(memory_series__add(s, &point), 0);
}

static void points_become_a_text(void **state)
{
	struct memory_series s = { .n = 0 };
	char *text = memory_series__text(&s, 0);

	assert_string_equal(text, "");
	free(text);
	add(&s, 1);
	add(&s, 5);
	add(&s, 9);
	text = memory_series__text(&s, 5 * MS);
	assert_string_equal(text, "0:5120:2048:3072:4,4:9216:2048:3072:4");
	free(text);
	memory_series__release(&s);
}

static void a_long_one_is_thinned(void **state)
{
	struct memory_series s = { .n = 0 };

	for (uint64_t ms = 0; ms < 100000; ms++)
		add(&s, ms);
	assert_in_range(s.n, MEMORY_SERIES_MAX / 2, MEMORY_SERIES_MAX);
	assert_int_equal(s.points[0].when_ns, 0);
	assert_true(s.points[s.n - 1].when_ns > 99000 * MS);
	/* At equal distances. */
	for (size_t i = 1; i < s.n; i++)
		assert_int_equal(s.points[i].when_ns - s.points[i - 1].when_ns, s.points[1].when_ns);
	memory_series__release(&s);
}

#define STATUS \
	"Name:\tRssAnon: 7 kB\nRssAnon:\t     100 kB\nRssFile:\t      20 kB\nRssShmem:\t       3 kB\nVmSwap:\t 4 kB\n"
#define STAT "12 (a) R 1 2 ) R 1 2 3 4 5 6 1000 7 8 9 50 30 0 0 20 0 1 0 99"

static void usage_is_parsed(void **state)
{
	struct memory_usage usage;
	uint64_t tick_ns = 1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK);

	assert_int_equal(memory_usage__parse(STATUS, STAT, &usage), 0);
	assert_int_equal(usage.anonymous, 100 << 10);
	assert_int_equal(usage.file, 20 << 10);
	assert_int_equal(usage.shared, 3 << 10);
	assert_int_equal(usage.swapped, 4 << 10);
	/* With children's that were waited for. */
	assert_int_equal(usage.faults, 1000 + 7 + 8 + 9);
	assert_int_equal(usage.cpu_ns, (50 + 30) * tick_ns);
	/* A kernel thread has no memory; a text that is cut says nothing. */
	assert_int_equal(memory_usage__parse("Name:\tx\n", STAT, &usage), -ESRCH);
	assert_int_equal(memory_usage__parse(STATUS, "12 (a) R 1 2", &usage), -ESRCH);
	assert_int_equal(memory_usage__parse(STATUS, "", &usage), -ESRCH);
}

static void usage_of_this_process(void **state)
{
	const size_t bytes = 32 << 20;
	struct memory_usage before, after;
	char *p;

	assert_int_equal(memory_usage__read(getpid(), &before), 0);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, bytes);
	assert_int_equal(memory_usage__read(getpid(), &after), 0);
	/* The kernel's counter may lag behind by some pages a CPU. */
	assert_true(after.anonymous - before.anonymous > bytes / 2);
	assert_true(after.faults > before.faults);
	munmap(p, bytes);
}

static void a_process_that_has_gone(void **state)
{
	struct memory_usage usage;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	/* It has no memory any more, and is there until it is waited for. */
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(memory_usage__read(pid, &usage), -ESRCH);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(memory_usage__read(pid, &usage), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_become_a_text),    cmocka_unit_test(a_long_one_is_thinned),
		cmocka_unit_test(usage_is_parsed),         cmocka_unit_test(usage_of_this_process),
		cmocka_unit_test(a_process_that_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
