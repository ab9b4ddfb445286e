// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stakeout/options.h"

/* What `--NAME=TEXT` gives. */
static int parse(enum option_kind kind, const char *name, const char *text, uint64_t min, uint64_t max,
		 void *out, struct so_error *err)
{
	const struct option_entry entries[] = {
		{ kind, 0, name, "VALUE", OPTION_RANGE(out, min, max), "" },
		{ OPTION_END },
	};
	const struct option_table table = { .usage = "", .about = "", .entries = entries };
	char word[128], *argv[] = { "test", word, NULL };

	snprintf(word, sizeof(word), "--%s=%s", name, text);
	return options__parse(&table, 2, argv, err);
}

#define MOST_BYTES ((uint64_t)1 << 50)
#define MOST_AGE   (3660 * DAY)

#define MIB ((uint64_t)1 << 20)
#define DAY ((int64_t)86400 * 1000000000)

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = { { "1048576", MIB },     { "1024K", MIB },        { "1M", MIB },
		     { "3G", 3072 * MIB },   { "2T", 2 * MIB * MIB }, { "1125899906842624", MOST_BYTES },
		     { "1024T", MOST_BYTES } };
	static const char *const bad[] = { "",
					   "M",
					   "1MB",
					   "1m",
					   "-1M",
					   " 2M",
					   "1.5G",
					   "1 G",
					   "0x1M",
					   "1023K",
					   "1025T",
					   "1025M2",
					   "18446744073709551616",
					   "17592186044416T" };
	uint64_t bytes = 7;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(parse(OPTION_SIZE, "x", good[i].text, MIB, MOST_BYTES, &bytes, NULL), 0);
		assert_int_equal(bytes, good[i].bytes);
	}
	bytes = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(OPTION_SIZE, "x", bad[i], MIB, MOST_BYTES, &bytes, NULL) != -EINVAL)
			fail_msg("'%s' was taken for %llu bytes", bad[i], (unsigned long long)bytes);
	}
	assert_int_equal(bytes, 7);
}

static void ages(void **state)
{
	static const char *const bad[] = { "", "d", "7", "7D", "1d12h", "-1d", "0s", "59s", "3661d", "1w" };
	struct so_error err = { "" };
	int64_t ns = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(OPTION_AGE, "retain-age", bad[i], DAY / 1440, MOST_AGE, &ns, &err) != -EINVAL)
			fail_msg("'%s' was taken for %lld ns", bad[i], (long long)ns);
	}
	assert_int_equal(ns, 7);
	assert_string_equal(err.text, "--retain-age needs a number from 1m to 3660d, not '1w'");
	assert_int_equal(parse(OPTION_AGE, "x", "7d", 0, MOST_AGE, &ns, NULL), 0);
	assert_true(ns == 7 * DAY);
	assert_int_equal(parse(OPTION_AGE, "x", "90m", 0, MOST_AGE, &ns, NULL), 0);
	assert_true(ns == DAY / 16);
	assert_int_equal(parse(OPTION_AGE, "x", "36h", 0, MOST_AGE, &ns, NULL), 0);
	assert_true(ns == DAY * 3 / 2);
	assert_int_equal(parse(OPTION_AGE, "x", "60s", 0, MOST_AGE, &ns, NULL), 0);
	assert_true(ns == DAY / 1440);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(ages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
