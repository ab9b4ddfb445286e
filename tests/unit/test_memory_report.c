// SPDX-License-Identifier: GPL-2.0-or-later
/* What is said of memory: of profiles as the daemon makes them, which line is named, and which is not. */
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

#include "client/memory/memory_report.h"
#include "daemon/profile/profile_builder.h"

#define SECONDS 20
#define SPAN_NS (SECONDS * 1000000000ull / 20)
#define MB      1000000ull

/* Anonymous memory of 50 MB, and so much more a second. */
static char *series(double mb_per_s)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (unsigned i = 0; i <= 4 * SECONDS; i++)
		fprintf(out, "%s%u:%.0f:2000:3000:0", i ? "," : "", 250 * i, (50 + mb_per_s * i / 4) * 1e6 / 1024);
	fclose(out);
	return text;
}

struct made {
	struct profile_builder *b;
	uint64_t python[3], native[3];
};

static uint64_t frame(struct profile_builder *b, const char *name, const char *file, int64_t line, uint64_t mapping)
{
	const struct profile_frame f = {
		.name = name, .filename = file, .line = line, .start_line = 1, .mapping_id = mapping
	};
	uint64_t location = profile_builder__location(b, &f);

	assert_true(location > 0);
	return location;
}

static struct made begin(void)
{
	static const struct profile_value_type types[] = { { "alloc_space", "bytes" }, { "inuse_space", "bytes" } };
	struct made m = { .b = profile_builder__new_values(1, SECONDS * 1000000000ull, types, 2, 1) };
	uint64_t libc, program;

	assert_non_null(m.b);
	libc = profile_builder__mapping(m.b, &(struct profile_mapping){ .filename = "/lib/libc.so.6", .build_id = "" });
	program = profile_builder__mapping(m.b, &(struct profile_mapping){ .filename = "/bin/sim", .build_id = "" });
	/* A list in the program's own line, which a module of the standard library calls. */
	m.python[0] = frame(m.b, "malloc", NULL, 0, libc);
	m.python[1] = frame(m.b, "keep", "/home/u/train.py", 12, 0);
	m.python[2] = frame(m.b, "Thread.run", "/usr/lib/python3.11/threading.py", 9, 0);
	/* operator new, within what a header brought in, within the program's function. */
	m.native[0] = frame(m.b, "malloc", NULL, 0, libc);
	m.native[1] = frame(m.b, "std::vector<char>::resize(unsigned long)", "/usr/include/c++/12/bits/stl_vector.h", 5,
			    program);
	m.native[2] = frame(m.b, "Simulator::log_event()", NULL, 0, program);
	return m;
}

static void in_use(const struct made *m, const uint64_t *stack, unsigned span, uint64_t bytes)
{
	const struct profile_labels labels = {
		.pid = 7, .tid = 7, .comm = "sim", .time_ns = (int64_t)(span * SPAN_NS) ?: 1
	};

	assert_int_equal(profile_builder__sample_values(m->b, stack, 3, (uint64_t[]){ 0, bytes }, &labels), 0);
}

static void allocated(const struct made *m, const uint64_t *stack, uint64_t bytes)
{
	const struct profile_labels labels = { .pid = 7, .tid = 7, .comm = "sim" };

	assert_int_equal(profile_builder__sample_values(m->b, stack, 3, (uint64_t[]){ bytes, 0 }, &labels), 0);
}

static void end(struct made *m, const char *text, struct memory_report *report)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct so_error err;
	size_t length;

	profile_builder__comment(m->b, "pid", "7");
	profile_builder__comment(m->b, "memory.page_bytes", "16384");
	profile_builder__comment(m->b, "memory.cost_ns", "20000000");
	profile_builder__comment(m->b, "memory.time_ns", "20000000000");
	profile_builder__comment(m->b, "memory.series", text);
	assert_int_equal(profile_builder__finish(m->b, &bytes, &length), 0);
	profile_builder__free(m->b);
	*report = (struct memory_report){ 0 };
	assert_int_equal(memory_report__read(bytes, length, report, &err), 0);
}

static char *printed(const struct memory_report *report)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	memory_report__print(report, 10, out);
	fclose(out);
	return text;
}

static void the_line_that_keeps_is_named(void **state)
{
	_cleanup_free_ char *readings = series(1), *text = NULL;
	struct memory_report report;
	struct made m = begin();
	const struct memory_line *line;

	for (unsigned span = 0; span < 20; span++)
		in_use(&m, m.python, span, MB);
	allocated(&m, m.python, 21 * MB);
	allocated(&m, m.native, 500 * MB);
	in_use(&m, m.native, 19, 30 * MB);
	end(&m, readings, &report);
	assert_int_equal(report.growth.own.verdict, GROWTH_STEADY);
	line = memory_report__culprit(&report);
	assert_non_null(line);
	assert_string_equal(line->text, "keep (train.py:12)");
	/* 18 MB in 18 s. */
	assert_true(fabs(line->rate - 1e6) < 1);
	assert_true(line->low < 1e6 && line->low > 0.93e6 && line->high > 1e6 && line->high < 1.07e6);
	assert_true(fabs(line->function_rate - line->rate) < 1);
	assert_true(fabs(line->in_use - 20e6) < 1);
	assert_true(fabs(line->allocated - 21e6) < 1);
	/* What is a second old is on its way. */
	assert_int_equal(report.lines->n, 2);
	assert_string_equal(report.lines->lines[1].text, "Simulator::log_event() (sim)");
	assert_true(report.lines->lines[1].rate < 1);
	assert_false(memory_line__keeps(&report.lines->lines[1]));
	text = printed(&report);
	assert_non_null(
		strstr(text, "growing: +60.0 MB a minute [+60.0, +60.0], 60.0 of it kept by keep (train.py:12)\n"));
	assert_non_null(strstr(text, "cost: 0.10 % of the process's time\n"));
	assert_null(strstr(text, "lines are known of"));
	memory_report__clear(&report);
}

static void what_is_replaced_is_not_accused(void **state)
{
	_cleanup_free_ char *readings = series(0), *text = NULL;
	struct memory_report report;
	struct made m = begin();

	/* A cache: it is as large as ever, though all of it is newer than the recording. */
	for (unsigned span = 0; span < 20; span++)
		in_use(&m, m.native, span, MB);
	end(&m, readings, &report);
	assert_int_equal(report.growth.own.verdict, GROWTH_NONE);
	assert_null(memory_report__culprit(&report));
	text = printed(&report);
	assert_non_null(strstr(text, "not growing: "));
	assert_null(strstr(text, "kept by"));
	memory_report__clear(&report);
}

static void what_was_kept_once_is_not_named(void **state)
{
	_cleanup_free_ char *readings = series(1), *text = NULL;
	struct memory_report report;
	struct made m = begin();

	in_use(&m, m.python, 2, 15 * MB);
	end(&m, readings, &report);
	assert_null(memory_report__culprit(&report));
	text = printed(&report);
	assert_non_null(strstr(text, "by no line that was seen to keep memory in both halves"));
	assert_non_null(strstr(text, "lines are known of 75 % of the growth"));
	memory_report__clear(&report);
}

static void lines_of_a_function_are_added_up(void **state)
{
	_cleanup_free_ char *readings = series(1), *text = NULL;
	struct memory_report report;
	struct made m = begin();
	uint64_t other[3] = { m.python[0], frame(m.b, "keep", "/home/u/train.py", 13, 0), m.python[2] };

	for (unsigned span = 0; span < 20; span++) {
		in_use(&m, m.python, span, 3 * MB / 4);
		in_use(&m, other, span, MB / 4);
	}
	end(&m, readings, &report);
	text = printed(&report);
	assert_non_null(
		strstr(text, ", 45.0 of it kept by keep (train.py:12), 60.0 with that function's other lines\n"));
	memory_report__clear(&report);
}

static void as_json(void **state)
{
	_cleanup_free_ char *readings = series(1);
	struct memory_report report;
	struct made m = begin();
	json_t *json;

	for (unsigned span = 0; span < 20; span++)
		in_use(&m, m.python, span, MB);
	end(&m, readings, &report);
	json = memory_report__json(&report);
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "verdict")), "growing");
	assert_string_equal(json_string_value(json_object_get(json, "line")), "keep (train.py:12)");
	assert_int_equal(json_integer_value(json_object_get(json, "pid")), 7);
	assert_int_equal(json_array_size(json_object_get(json, "lines")), 1);
	json_decref(json);
	memory_report__clear(&report);
}

static void other_profiles_are_refused(void **state)
{
	_cleanup_(profile_builder) struct profile_builder *cpu = profile_builder__new(1, 2, 3);
	struct memory_report report = { 0 };
	_cleanup_free_ uint8_t *bytes = NULL, *heap = NULL;
	struct made m = begin();
	struct so_error err;
	size_t length;

	assert_int_equal(profile_builder__finish(cpu, &bytes, &length), 0);
	assert_int_equal(memory_report__read(bytes, length, &report, &err), -ENODATA);
	memory_report__clear(&report);
	/* A heap profile of another tool has no series. */
	report = (struct memory_report){ 0 };
	assert_int_equal(profile_builder__finish(m.b, &heap, &length), 0);
	assert_int_equal(memory_report__read(heap, length, &report, &err), -EINVAL);
	assert_non_null(strstr(err.text, "stakeout memory"));
	memory_report__clear(&report);
	profile_builder__free(m.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_line_that_keeps_is_named),     cmocka_unit_test(what_is_replaced_is_not_accused),
		cmocka_unit_test(what_was_kept_once_is_not_named),  cmocka_unit_test(as_json),
		cmocka_unit_test(lines_of_a_function_are_added_up), cmocka_unit_test(other_profiles_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
