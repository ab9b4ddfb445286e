// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether memory grew, of made series: a leak, a sawtooth, a walk at random, what is needed once, and chance alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/growth.h"
#include "client/memory/growth_text.h"
#include "stakeout/cleanup.h"

#define MB 1e6

static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(seed >> 11) / 9007199254740992.0;
}

/* What is in use at a time, in bytes. */
typedef double series_fn(double seconds);

static struct growth of(series_fn *f, double seconds)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct so_error err;
	struct growth g;

	for (double t = 0; t < seconds; t += 0.25)
		fprintf(out, "%s%.0f:%.0f:2000:3000:0", t > 0 ? "," : "", t * 1e3, f(t) / 1024);
	fclose(out);
	assert_int_equal(growth__read(text, &g, &err), 0);
	return g;
}

static double leak(double t)
{
	return 50 * MB + 1 * MB * t + 0.05 * MB * uniform();
}

static double flat(double t)
{
	return 50 * MB + 0.2 * MB * uniform();
}

/* 40 MB are collected within 3 s, and given back. */
static double sawtooth(double t)
{
	return 50 * MB + 40 * MB * fmod(t + 1.1, 3) / 3;
}

static double leaking_sawtooth(double t)
{
	return sawtooth(t) + 3 * MB * t;
}

static double steps(double t)
{
	return 50 * MB + 5 * MB * floor(t / 5);
}

static double warm_up(double t)
{
	return 50 * MB + (t < 4 ? 20 * MB * t : 80 * MB);
}

static double shrinking(double t)
{
	return 100 * MB - 1 * MB * t;
}

/* A page a second: what an allocator's own books need. */
static double crumbs(double t)
{
	return 50 * MB + 4096 * floor(t);
}

static void a_leak_is_told_with_its_rate(void **state)
{
	struct growth g = of(leak, 20);

	assert_int_equal(g.own.verdict, GROWTH_STEADY);
	assert_true(fabs(g.own.rate - 1 * MB) < 0.02 * MB);
	assert_true(g.own.low <= 1.01 * MB && g.own.high >= 0.99 * MB);
	assert_true(g.own.high - g.own.low < 0.1 * MB);
	assert_true(fabs(g.shared.last - 3000 * 1024.0) < 1);
	assert_true(fabs(g.shared.rate) < 1);
	assert_string_equal(growth__word(g.own.verdict), "growing");
	assert_int_equal(of(steps, 60).own.verdict, GROWTH_STEADY);
	assert_int_equal(of(leaking_sawtooth, 60).own.verdict, GROWTH_STEADY);
}

static void what_keeps_nothing_is_not_accused(void **state)
{
	for (seed = 1; seed <= 200; seed++) {
		uint64_t kept = seed;

		assert_int_equal(of(flat, 20).own.verdict, GROWTH_NONE);
		seed = kept;
	}
	for (double seconds = 5; seconds < 60; seconds += 0.5) {
		struct growth g = of(sawtooth, seconds);

		assert_true(g.own.verdict == GROWTH_NONE || g.own.verdict == GROWTH_ONCE || seconds < 9);
		assert_true(g.own.low <= 0 || seconds < 9);
	}
	assert_int_equal(of(crumbs, 20).own.verdict, GROWTH_NONE);
}

static void what_is_needed_once_is_no_leak(void **state)
{
	assert_int_equal(of(warm_up, 20).own.verdict, GROWTH_ONCE);
	assert_int_equal(of(warm_up, 60).own.verdict, GROWTH_ONCE);
	assert_int_equal(of(shrinking, 20).own.verdict, GROWTH_SHRINKS);
}

/* The interval holds the true slope in 95 of 100 cases, where each reading is off by chance. */
static void the_interval_holds(void **state)
{
	unsigned held = 0;

	for (unsigned i = 1; i <= 400; i++) {
		struct growth g;

		seed = i * 7919;
		g = of(leak, 20);
		held += g.own.low <= 1 * MB && g.own.high >= 1 * MB;
	}
	assert_in_range(held, 400 * 0.90, 400);
}

/* Readings that are off by noise which remembers `memory` seconds; of 40 s, four a second. */
static struct growth of_noise(double memory, double rate)
{
	double kept = memory > 0 ? exp(-0.25 / memory) : 0, noise = 0;
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct so_error err;
	struct growth g;

	for (int i = 0; i < 160; i++) {
		double normal = -6;

		for (int j = 0; j < 12; j++)
			normal += uniform();
		noise = i ? kept * noise + sqrt(1 - kept * kept) * normal : normal;
		fprintf(out, "%s%d:%.0f:0:0:0", i ? "," : "", i * 250,
			(500 * MB + rate * 0.25 * i + 10 * MB * noise) / 1024);
	}
	fclose(out);
	assert_int_equal(growth__read(text, &g, &err), 0);
	return g;
}

/* Also where the noise remembers a tenth of the time. Seven in a thousand is the error of 1,000 cases. */
static void the_interval_holds_where_noise_remembers(void **state)
{
	const double memories[] = { 0, 0.4, 2, 4 };

	seed = 1;
	for (size_t m = 0; m < sizeof(memories) / sizeof(memories[0]); m++) {
		unsigned held = 0;

		for (unsigned i = 0; i < 1000; i++) {
			struct growth g = of_noise(memories[m], 2 * MB);

			held += g.own.low <= 2 * MB && g.own.high >= 2 * MB;
		}
		print_message("noise of %.1f s: %u of 1000 intervals hold\n", memories[m], held);
		assert_in_range(held, 930, 985);
	}
}

static void noise_does_not_grow_once(void **state)
{
	const double memories[] = { 0, 0.4, 2, 4, 40 };

	seed = 1;
	for (size_t m = 0; m < sizeof(memories) / sizeof(memories[0]); m++) {
		unsigned once = 0;

		for (unsigned i = 0; i < 1000; i++)
			once += of_noise(memories[m], 0).own.verdict == GROWTH_ONCE;
		print_message("noise of %.1f s: %u of 1000 'grew once'\n", memories[m], once);
		assert_in_range(once, 0, 10);
	}
}

/* Memory that workers share, and files that are mapped, are told apart from the process's own. */
static void the_kinds_are_told_apart(void **state)
{
	_cleanup_free_ char *text = NULL, *printed = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct so_error err;
	struct growth g;

	for (int i = 0; i < 80; i++)
		fprintf(out, "%s%d:50000:%d:%d:0", i ? "," : "", i * 250, 90000 - 250 * i, 1000 + 500 * i);
	fclose(out);
	assert_int_equal(growth__read(text, &g, &err), 0);
	assert_int_equal(g.own.verdict, GROWTH_NONE);
	assert_int_equal(g.files.verdict, GROWTH_SHRINKS);
	assert_int_equal(g.shared.verdict, GROWTH_STEADY);
	assert_true(fabs(g.shared.rate - 2000 * 1024) < 1 && fabs(g.files.rate + 1000 * 1024) < 1);
	out = open_memstream(&printed, &length);
	growth_text__print_others(&g, out);
	fclose(out);
	assert_non_null(strstr(printed, "files shrinking: -61.4 MB a minute [-61.4, -61.4]: page cache"));
	assert_non_null(
		strstr(printed, "shared memory growing: +122.9 MB a minute [+122.9, +122.9]: as a DataLoader's"));
}

static void too_few_points_say_nothing(void **state)
{
	struct so_error err;
	struct growth g;

	assert_int_equal(growth__read("", &g, &err), 0);
	assert_int_equal(g.points, 0);
	assert_int_equal(g.own.verdict, GROWTH_UNKNOWN);
	assert_int_equal(growth__read("0:1:2:3:4,250:1:2:3:4", &g, &err), 0);
	assert_int_equal(g.points, 2);
	assert_int_equal(g.own.verdict, GROWTH_UNKNOWN);
	assert_int_equal(growth__read("5:1:2:3:4,5:1:2:3:4,5:1:2:3:4,5:1:2:3:4,5:1:2:3:4,5:1:2:3:4,5:1:2:3:4,5:1:2:3:4,"
				      "5:1:2:3:4",
				      &g, &err),
			 0);
	assert_int_equal(g.own.verdict, GROWTH_UNKNOWN);
}

static void damaged_series_are_refused(void **state)
{
	static const char *const wrong[] = { "x",           "1",           "1:2",         "1:2:3:4",
					     "1:2:3:4:",    "1:2:3:4:5:6", "1:2:3:4:5,x", "-1:2:3:4:5",
					     "1:nan:3:4:5", "1:2:3:4:5 ",  ",",           "1:2:3:4:5,,",
					     "1: 2:3:4:5",  "1:1e9:3:4:5", "0x1:2:3:4:5", "1:1234567890123456:3:4:5" };
	struct so_error err;
	struct growth g;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(growth__read(wrong[i], &g, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leak_is_told_with_its_rate),
		cmocka_unit_test(what_keeps_nothing_is_not_accused),
		cmocka_unit_test(what_is_needed_once_is_no_leak),
		cmocka_unit_test(the_interval_holds),
		cmocka_unit_test(the_interval_holds_where_noise_remembers),
		cmocka_unit_test(noise_does_not_grow_once),
		cmocka_unit_test(the_kinds_are_told_apart),
		cmocka_unit_test(too_few_points_say_nothing),
		cmocka_unit_test(damaged_series_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
