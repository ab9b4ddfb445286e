// SPDX-License-Identifier: GPL-2.0-or-later
/* Cycles of a recording: what is asked for, when the clock allows the next, and what files are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "client/commands/record_schedule.h"

static void clock_text(void **state)
{
	struct so_error err;
	double s = 0;

	assert_int_equal(record_schedule__parse_clock("/10s", &s, &err), 0);
	assert_true(s == 10);
	assert_int_equal(record_schedule__parse_clock("1m", &s, &err), 0);
	assert_true(s == 60);
	assert_int_equal(record_schedule__parse_clock("unlimited", &s, &err), -EINVAL);
	assert_int_equal(record_schedule__parse_clock("//3", &s, &err), -EINVAL);
	assert_int_equal(record_schedule__parse_clock("", &s, &err), -EINVAL);
}

static void until_the_clock(void **state)
{
	struct record_schedule schedule = { .clock_s = 10 };

	assert_true(record_schedule__until_clock_s(&schedule, (struct timespec){ 1700000003, 500000000 }) == 6.5);
	assert_true(record_schedule__until_clock_s(&schedule, (struct timespec){ 1700000009, 750000000 }) == 0.25);
	assert_true(record_schedule__until_clock_s(&schedule, (struct timespec){ 1700000000, 0 }) == 10);
	schedule.clock_s = 0.5;
	assert_true(record_schedule__until_clock_s(&schedule, (struct timespec){ 1700000000, 750000000 }) == 0.25);
	schedule.clock_s = 0;
	assert_true(record_schedule__until_clock_s(&schedule, (struct timespec){ 1700000003, 0 }) == 0);
}

static void check_path(const char *path, const char *numbered)
{
	char *text = record_schedule__path(path, 12);

	assert_string_equal(text, numbered);
	free(text);
}

static void paths(void **state)
{
	check_path("run.pb.gz", "run-12.pb.gz");
	check_path("/a.b/run.speedscope.json", "/a.b/run-12.speedscope.json");
	check_path("/a.b/run", "/a.b/run-12");
	check_path(".hidden", ".hidden-12");
	check_path("a/", "a/-12");
}

static void parts(void **state)
{
	struct record_schedule schedule = { .wait_s = 1 };
	struct so_error err;

	assert_int_equal(record_schedule__check(&schedule, false, &err), -EINVAL);
	schedule.wait_s = 0;
	assert_int_equal(record_schedule__check(&schedule, false, &err), 0);
	assert_int_equal(record_schedule__check(&schedule, true, &err), -EINVAL);
	assert_false(record_schedule__goes_on(&schedule, 1));
	schedule = (struct record_schedule){ .warmup_s = 1, .active_s = 2, .repeat = 2 };
	assert_int_equal(record_schedule__check(&schedule, true, &err), 0);
	assert_true(record_schedule__goes_on(&schedule, 1));
	assert_false(record_schedule__goes_on(&schedule, 2));
	schedule.repeat = 0;
	assert_true(record_schedule__goes_on(&schedule, 1000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock_text),
		cmocka_unit_test(until_the_clock),
		cmocka_unit_test(paths),
		cmocka_unit_test(parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
