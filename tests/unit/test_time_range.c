// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stakeout/time_range.h"

#define NS ((int64_t)1000000000)

/* Central Europe: in 2026 the clock goes from 02:00 to 03:00 on 29 March, and from 03:00 to 02:00 on 25 October. */
#define EUROPE "CET-1CEST,M3.5.0,M10.5.0/3"
/* Midnight itself is left out: from 00:00 to 01:00 on 29 March. */
#define MIDNIGHT "XST-2XDT,M3.5.0/0,M10.5.0/0"

static int64_t utc(const char *text)
{
	struct tm tm = { 0 };

	assert_non_null(strptime(text, "%Y-%m-%d %H:%M:%S", &tm));
	return (int64_t)timegm(&tm) * NS;
}

static void zone(const char *tz)
{
	setenv("TZ", tz, 1);
	tzset();
}

static void expect(const char *since, const char *until, const char *at, const char *now, const char *from,
		   const char *to)
{
	struct time_range range = { -1, -1 };
	struct so_error err = { "" };

	if (time_range__parse(since, until, at, utc(now), &range, &err))
		fail_msg("%s", err.text);
	if (range.from_ns != utc(from))
		fail_msg("from %lld, not %s", (long long)(range.from_ns / NS), from);
	if (range.to_ns != utc(to))
		fail_msg("to %lld, not %s", (long long)(range.to_ns / NS), to);
}

static void refuse(const char *since, const char *until, const char *at, const char *now, const char *word)
{
	struct time_range range = { -1, -1 };
	struct so_error err = { "" };

	assert_int_equal(time_range__parse(since, until, at, utc(now), &range, &err), -EINVAL);
	if (!strstr(err.text, word))
		fail_msg("'%s' does not say '%s'", err.text, word);
	assert_int_equal(range.from_ns, -1);
	assert_int_equal(range.to_ns, -1);
}

#define NOW "2026-11-20 12:00:00"

static void test_ago(void **state)
{
	zone(EUROPE);
	expect("5m", NULL, NULL, NOW, "2026-11-20 11:55:00", NOW);
	expect("90s", NULL, NULL, NOW, "2026-11-20 11:58:30", NOW);
	expect("2h", "1h", NULL, NOW, "2026-11-20 10:00:00", "2026-11-20 11:00:00");
	expect("1d", NULL, NULL, NOW, "2026-11-19 12:00:00", NOW);
	expect("1w", NULL, NULL, NOW, "2026-11-13 12:00:00", NOW);
	expect("1h30m", "now", NULL, NOW, "2026-11-20 10:30:00", NOW);
	expect(NULL, "1h", NULL, NOW, "1970-01-01 00:00:00", "2026-11-20 11:00:00");
	expect(NULL, NULL, NULL, NOW, "1970-01-01 00:00:00", NOW);
	/* A day is 24 hours, also when the clock was changed. */
	expect("1d", NULL, NULL, "2026-03-29 12:00:00", "2026-03-28 12:00:00", "2026-03-29 12:00:00");
}

static void test_dates(void **state)
{
	zone(EUROPE);
	expect("2026-11-20 03:00", NULL, NULL, NOW, "2026-11-20 02:00:00", NOW);
	expect("2026-11-20T03:00:30", NULL, NULL, NOW, "2026-11-20 02:00:30", NOW);
	expect("2026-11-20 03:00Z", NULL, NULL, NOW, "2026-11-20 03:00:00", NOW);
	expect("2026-11-19", "2026-11-20", NULL, NOW, "2026-11-18 23:00:00", "2026-11-19 23:00:00");
	expect("2026-07-01 12:00", "2026-07-01 13:00", NULL, NOW, "2026-07-01 10:00:00", "2026-07-01 11:00:00");
	expect("2024-02-29", NULL, NULL, NOW, "2024-02-28 23:00:00", NOW);
	/* The end of a day that is not over. */
	expect("2026-11-20", "2026-11-21", NULL, NOW, "2026-11-19 23:00:00", NOW);
}

static void test_clock_times(void **state)
{
	zone(EUROPE);
	expect("12:30", NULL, NULL, NOW, "2026-11-20 11:30:00", NOW);
	/* Not yet today. */
	expect("13:00:01", NULL, NULL, NOW, "2026-11-19 12:00:01", NOW);
	expect("22:00", "02:00", NULL, NOW, "2026-11-19 21:00:00", "2026-11-20 01:00:00");
	expect(NULL, NULL, "03:12", NOW, "2026-11-20 02:12:00", "2026-11-20 02:13:00");
	expect(NULL, NULL, "03:12:30", NOW, "2026-11-20 02:12:00", "2026-11-20 02:13:00");
	expect(NULL, NULL, "12:59:40", NOW, "2026-11-20 11:59:10", NOW);
	expect(NULL, NULL, "13:00", NOW, "2026-11-20 11:59:30", NOW);
	expect(NULL, NULL, "5m", NOW, "2026-11-20 11:54:30", "2026-11-20 11:55:30");
	expect(NULL, NULL, "2026-11-18 03:12", NOW, "2026-11-18 02:12:00", "2026-11-18 02:13:00");
}

static void test_summer_begins(void **state)
{
	zone(EUROPE);
	/* 01:59:59 is followed by 03:00:00. */
	expect("2026-03-29 01:59:59", "2026-03-29 03:00", NULL, NOW, "2026-03-29 00:59:59",
	       "2026-03-29 01:00:00");
	refuse("2026-03-29 02:30", NULL, NULL, NOW, "leaves out");
	/* Without a date, that of the day before. */
	expect(NULL, NULL, "02:30", "2026-03-29 10:00:00", "2026-03-28 01:30:00", "2026-03-28 01:31:00");
	expect(NULL, NULL, "03:30", "2026-03-29 10:00:00", "2026-03-29 01:30:00", "2026-03-29 01:31:00");
	/* Yesterday's wall clock time, over the change. */
	expect("13:00", NULL, NULL, "2026-03-29 10:00:00", "2026-03-28 12:00:00", "2026-03-29 10:00:00");
}

static void test_summer_ends(void **state)
{
	zone(EUROPE);
	/* 02:30 is shown at 00:30 UTC and at 01:30 UTC. */
	expect("2026-10-25 02:30", "2026-10-25 02:30", NULL, NOW, "2026-10-25 00:30:00", "2026-10-25 01:30:00");
	expect("02:30", "02:30", NULL, "2026-10-25 10:00:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00");
	expect(NULL, NULL, "02:30", "2026-10-25 10:00:00", "2026-10-25 01:30:00", "2026-10-25 01:31:00");
	/* Between the two, only the first has been. */
	expect(NULL, NULL, "02:30", "2026-10-25 01:00:00", "2026-10-25 00:30:00", "2026-10-25 00:31:00");
	/* Before both. */
	expect(NULL, NULL, "02:30", "2026-10-25 00:00:00", "2026-10-24 00:30:00", "2026-10-24 00:31:00");
	/* The day has 25 hours. */
	expect("2026-10-25", "2026-10-26", NULL, NOW, "2026-10-24 22:00:00", "2026-10-25 23:00:00");
}

static void test_midnight_left_out(void **state)
{
	zone(MIDNIGHT);
	/* The day begins at 01:00. */
	expect("2026-03-29", "2026-03-30", NULL, NOW, "2026-03-28 22:00:00", "2026-03-29 21:00:00");
	refuse("2026-03-29 00:30", NULL, NULL, NOW, "leaves out");
}

static void test_what_is_no_time(void **state)
{
	static const char *const texts[] = {
		"",
		"5",
		"m",
		"5x",
		"-5m",
		"5m ",
		" 5m",
		"5m5",
		"24:00",
		"12:60",
		"1:30",
		"12:30:60",
		"12:30:",
		"12:30x",
		"2026-13",
		"2026/11/20",
		"2026-11-20 ",
		"2026-11-20 3",
		"2026-11-20X03:00",
		"03:00Z",
		"2026-11-20 03:00+01:00",
		"1969-01-01",
		"noon",
		"99999999999999999999",
	};

	zone(EUROPE);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		refuse(texts[i], NULL, NULL, NOW, "--since needs a time");
		refuse(NULL, texts[i], NULL, NOW, "--until needs a time");
		refuse(NULL, NULL, texts[i], NOW, "--at needs a time");
	}
	refuse("2026-02-30", NULL, NULL, NOW, "no such day");
	refuse("2026-02-30 03:00Z", NULL, NULL, NOW, "no such day");
	refuse("2026-13-01", NULL, NULL, NOW, "no such day");
	refuse("2026-00-01", NULL, NULL, NOW, "no such day");
	refuse("99999999999999999999d", NULL, NULL, NOW, "ten years");
	refuse("3661d", NULL, NULL, NOW, "ten years");
}

static void test_ranges_that_are_none(void **state)
{
	zone(EUROPE);
	refuse("5m", NULL, "5m", NOW, "--at does not go with");
	refuse(NULL, "5m", "5m", NOW, "--at does not go with");
	refuse("5m", "5m", NULL, NOW, "empty");
	refuse("5m", "6m", NULL, NOW, "empty");
	refuse("2026-11-20 13:00:01", NULL, NULL, NOW, "not in the past");
	refuse("0s", NULL, NULL, NOW, "not in the past");
	refuse(NULL, NULL, "2026-11-20 13:00:01", NOW, "in the future");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ago),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_clock_times),
		cmocka_unit_test(test_summer_begins),
		cmocka_unit_test(test_summer_ends),
		cmocka_unit_test(test_midnight_left_out),
		cmocka_unit_test(test_what_is_no_time),
		cmocka_unit_test(test_ranges_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
