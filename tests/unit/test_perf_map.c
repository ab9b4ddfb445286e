/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/symbols/perf_map.c"

static struct perf_map *parse(const char *text)
{
	struct perf_map *map = NULL;

	assert_int_equal(perf_map__parse(text, strlen(text), &map), 0);
	return map;
}

static void expect(const struct perf_map *map, uint64_t address, const char *wanted)
{
	const char *found = perf_map__lookup(map, address);

	if (!wanted) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, wanted);
}

static void test_lines(void **state)
{
	_cleanup_(perf_map) struct perf_map *map = parse("7f0000001000 20 LazyCompile:~run /a b.js:12\n"
							 "0x7F0000000000 0x10 first\r\n"
							 "7f0000002000\t8\ttabbed\n"
							 "7f0000003000 8 no newline");

	assert_int_equal(map->n, 4);
	expect(map, 0x7effffffffff, NULL);
	expect(map, 0x7f0000000000, "first");
	expect(map, 0x7f000000000f, "first");
	expect(map, 0x7f0000000010, NULL);
	expect(map, 0x7f000000101f, "LazyCompile:~run /a b.js:12");
	expect(map, 0x7f0000002007, "tabbed");
	expect(map, 0x7f0000003007, "no newline");
	expect(map, 0x7f0000003008, NULL);
	expect(map, UINT64_MAX, NULL);
}

static void test_damaged_lines_are_passed_over(void **state)
{
	_cleanup_(perf_map) struct perf_map *map = parse("\n\n"
							 "zz 10 a\n"
							 "1000\n"
							 "1000 10\n"
							 "1000 10 \n"
							 "1000 0 empty\n"
							 "10000000000000000 10 too long\n"
							 "ffffffffffffffff 2 wraps\n"
							 "-1000 10 minus\n"
							 "2000 10 good\n");
	_cleanup_(perf_map) struct perf_map *none = parse("");

	assert_int_equal(map->n, 1);
	expect(map, 0x2000, "good");
	assert_int_equal(none->n, 0);
	expect(none, 0x2000, NULL);
}

static void test_later_lines_win(void **state)
{
	_cleanup_(perf_map) struct perf_map *map = parse("1000 100 old\n"
							 "1040 20 inside\n"
							 "0fc0 60 across the begin\n"
							 "10f0 20 across the end\n"
							 "2000 10 replaced\n"
							 "2000 10 replacement\n"
							 "3010 10 covered\n"
							 "3000 100 covering\n");

	expect(map, 0xfc0, "across the begin");
	expect(map, 0x101f, "across the begin");
	expect(map, 0x1020, "old");
	expect(map, 0x103f, "old");
	expect(map, 0x1040, "inside");
	expect(map, 0x105f, "inside");
	expect(map, 0x1060, "old");
	expect(map, 0x10ef, "old");
	expect(map, 0x10f0, "across the end");
	expect(map, 0x110f, "across the end");
	expect(map, 0x1110, NULL);
	expect(map, 0x2000, "replacement");
	expect(map, 0x3015, "covering");
	/* One piece for each that is seen, two for the one that is cut in its middle. */
	assert_int_equal(map->n, 7);
}

/* Every address of a small space against a plain table that the lines are painted into. */
static void test_against_painting(void **state)
{
	_cleanup_free_ char *text = malloc(400 * 32);
	unsigned seed = 42;

	assert_non_null(text);
	for (unsigned round = 0; round < 50; round++) {
		_cleanup_(perf_map) struct perf_map *map = NULL;
		unsigned painted[1200] = { 0 };
		size_t at = 0;

		for (unsigned i = 1; i <= 400; i++) {
			unsigned start = (unsigned)rand_r(&seed) % 1000, size = (unsigned)rand_r(&seed) % 150;

			at += (size_t)sprintf(text + at, "%x %x f%u\n", start, size, i);
			for (unsigned a = start; a < start + size; a++)
				painted[a] = i;
		}
		assert_int_equal(perf_map__parse(text, at, &map), 0);
		for (unsigned a = 0; a < 1200; a++) {
			char wanted[16];

			snprintf(wanted, sizeof(wanted), "f%u", painted[a]);
			expect(map, a, painted[a] ? wanted : NULL);
		}
	}
}

static void test_limits(void **state)
{
	size_t n = (1u << 20) + 5000, at = 0;
	_cleanup_free_ char *text = malloc(n * 24);
	_cleanup_(perf_map) struct perf_map *map = NULL;

	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		at += (size_t)sprintf(text + at, "%zx 10 f%zu\n", 0x100000 + 16 * i, i);
	assert_int_equal(perf_map__parse(text, at, &map), 0);
	/* The oldest are left out. */
	assert_int_equal(map->n, 1u << 20);
	expect(map, 0x100000, NULL);
	expect(map, 0x100000 + 16 * 4999, NULL);
	expect(map, 0x100000 + 16 * 5000, "f5000");
	expect(map, 0x100000 + 16 * (n - 1), "f1053575");
}

static void test_long_name_is_cut(void **state)
{
	_cleanup_free_ char *text = malloc(100000);
	_cleanup_(perf_map) struct perf_map *map = NULL;

	assert_non_null(text);
	memset(text, 'n', 100000);
	memcpy(text, "1000 10 ", 8);
	assert_int_equal(perf_map__parse(text, 100000, &map), 0);
	assert_int_equal(strlen(perf_map__lookup(map, 0x1000)), 1024);
}

static void expect_names(const struct perf_map *map, uint64_t address, uint64_t from, uint64_t to, const char *wanted)
{
	struct perf_map_names names;
	char found[64] = "";

	perf_map__names_between(map, address, from, to, &names);
	for (unsigned i = 0; i < names.n; i++)
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s", i ? "|" : "", names.list[i]);
	if (names.more)
		strcat(found, "|...");
	assert_string_equal(found, wanted);
}

/* Lines of 10 bytes each, by which moments are counted. */
static void test_names_between(void **state)
{
	_cleanup_(perf_map) struct perf_map *map = parse("1000 10 a\n"
							 "1000 20 b\n"
							 "2000 10 c\n"
							 "1008 10 d\n"
							 "1000 10 e\n"
							 "1000 10 a\n");

	expect_names(map, 0x1000, 10, 10, "a");
	expect_names(map, 0x1000, 20, 20, "b");
	expect_names(map, 0x1000, 40, 40, "b");
	expect_names(map, 0x1008, 30, 40, "b|d");
	expect_names(map, 0x100c, 40, 40, "d");
	expect_names(map, 0x1000, 10, 20, "a|b");
	expect_names(map, 0x1000, 60, 60, "a");
	/* Not yet there: the first that comes. */
	expect_names(map, 0x1000, 0, 0, "a");
	expect_names(map, 0x2000, 20, 20, "c");
	expect_names(map, 0x1018, 0, 0, "b");
	expect_names(map, 0x2000, 20, 30, "c");
	expect_names(map, 0x3000, 0, 60, "");
	expect_names(map, 0xfff, 0, 60, "");
	/* Each name once. */
	expect_names(map, 0x1000, 50, 60, "e|a");
	expect_names(map, 0x1000, 10, 60, "a|b|e");
}

static void test_many_names(void **state)
{
	_cleanup_(perf_map) struct perf_map *map = parse("1 9 a\n1 9 b\n1 9 c\n1 9 d\n");
	struct perf_map_names names;

	perf_map__names_between(map, 5, 0, 24, &names);
	assert_int_equal(names.n, PERF_MAP_MAX_NAMES);
	assert_true(names.more);
}

static void count_range(void *context, uint64_t start, uint64_t end)
{
	uint64_t *sum = context;

	sum[0]++;
	sum[1] += end - start;
}

/* Whole lines alone, those that are none passed over. */
static void test_each_range(void **state)
{
	static const char text[] = "1000 10 a\nnonsense\n2000 6 b\n3000 10 not at its end";
	uint64_t sum[2] = { 0 };

	assert_int_equal(perf_map__each_range(text, sizeof(text) - 1, count_range, sum), strchr(text, 'b') + 2 - text);
	assert_int_equal(sum[0], 2);
	assert_int_equal(sum[1], 0x16);
	assert_int_equal(perf_map__each_range(text, 5, count_range, sum), 0);
}

static void own_map_path(char *path, size_t size)
{
	snprintf(path, size, "/tmp/perf-%d.map", getpid());
}

static void test_read(void **state)
{
	_cleanup_(perf_map) struct perf_map *map = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];
	struct so_error err;

	own_map_path(path, sizeof(path));
	unlink(path);
	assert_int_equal(perf_map__read(getpid(), &map, &err), -ENOENT);
	/* Several windows' worth, with lines across their borders and one longer than a window. */
	f = fopen(path, "we");
	assert_non_null(f);
	for (unsigned i = 0; i < 60000; i++)
		fprintf(f, "%x 8 function_number_%u_with_a_name_of_some_length\n", 0x10000 + 8 * i, i);
	fputs("10000 4 ", f);
	for (unsigned i = 0; i < 2500000; i++)
		fputc('x', f);
	fputs("\n", f);
	for (unsigned i = 60000; i < 80000; i++)
		fprintf(f, "%x 8 function_number_%u_with_a_name_of_some_length\n", 0x10000 + 8 * i, i);
	assert_int_equal(fflush(f), 0);
	assert_int_equal(perf_map__read(getpid(), &map, &err), 0);
	unlink(path);
	assert_int_equal(map->n, 80000);
	for (unsigned i = 0; i < 80000; i++) {
		char wanted[64];

		snprintf(wanted, sizeof(wanted), "function_number_%u_with_a_name_of_some_length", i);
		expect(map, 0x10000 + 8 * i, wanted);
	}
}

static void test_read_refusals(void **state)
{
	struct perf_map *map = NULL;
	char path[64];
	struct so_error err;

	own_map_path(path, sizeof(path));
	unlink(path);
	assert_int_equal(symlink("/proc/self/status", path), 0);
	assert_int_equal(perf_map__read(getpid(), &map, &err), -ELOOP);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(perf_map__read(getpid(), &map, &err), -ENOENT);
	unlink(path);
	assert_int_equal(perf_map__read(0x7fffffff, &map, &err), -ESRCH);
	assert_null(map);
}

static void test_read_of_another_owner(void **state)
{
	struct perf_map *map = NULL;
	struct so_error err;
	char path[64];
	int fd, r;

	if (geteuid() != 0)
		skip(); /* only root can give a file away */
	own_map_path(path, sizeof(path));
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1000 10 evil\n", 13), 13);
	assert_int_equal(fchown(fd, 65534, 65534), 0);
	close(fd);
	r = perf_map__read(getpid(), &map, &err);
	unlink(path);
	assert_int_equal(r, -EPERM);
	assert_non_null(strstr(err.text, "65534"));
	assert_null(map);
}

/* Root's file that the process's user may not read, and one that they may. */
static void test_read_of_roots_file(void **state)
{
	struct perf_map *map = NULL;
	struct so_error err;
	char path[64];
	int fd, r;

	if (geteuid() != 0)
		skip();
	own_map_path(path, sizeof(path));
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1000 10 hidden\n", 15), 15);
	close(fd);
	r = perf_map__read_ended(getpid(), 65534, &map, &err);
	assert_int_equal(r, -EACCES);
	assert_null(map);
	assert_int_equal(chmod(path, 0644), 0);
	r = perf_map__read_ended(getpid(), 65534, &map, &err);
	unlink(path);
	assert_int_equal(r, 0);
	perf_map__free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_names_between),
		cmocka_unit_test(test_many_names),
		cmocka_unit_test(test_each_range),
		cmocka_unit_test(test_damaged_lines_are_passed_over),
		cmocka_unit_test(test_later_lines_win),
		cmocka_unit_test(test_against_painting),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_long_name_is_cut),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_read_refusals),
		cmocka_unit_test(test_read_of_another_owner),
		cmocka_unit_test(test_read_of_roots_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
