// SPDX-License-Identifier: GPL-2.0-or-later
/* What is said of allocations: of profiles as the daemon makes them. */
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

#include "client/memory/alloc_report.h"
#include "daemon/memory/alloc_profile.h"
#include "daemon/profile/profile_builder.h"

#define SECONDS 20
#define MB      1000000ull

/* A program that grows by 2 MB a second, by a line that keeps 2 MB of each; another one frees all. */
struct made {
	struct profile_builder *b;
	uint64_t keep[2], churn[2];
};

static uint64_t frame(struct profile_builder *b, const char *name, int64_t line)
{
	const struct profile_frame f = { .name = name, .filename = "/home/u/sim.py", .line = line, .start_line = 1 };

	return profile_builder__location(b, &f);
}

static void add(const struct made *m, const uint64_t *stack, const struct profile_labels *labels,
		const uint64_t *values)
{
	assert_int_equal(profile_builder__sample_values(m->b, stack, 2, values, labels), 0);
}

static void comment(const struct made *m, const char *key, const char *value)
{
	assert_int_equal(profile_builder__comment(m->b, key, value), 0);
}

static void add_samples(const struct made *m)
{
	const struct profile_labels plain = { .pid = 7 };

	add(m, m->keep, &plain,
	    (uint64_t[ALLOC_VALUES]){ [ALLOC_ALLOCATED_OBJECTS] = 400, [ALLOC_ALLOCATED] = 40 * MB });
	add(m, m->churn, &plain,
	    (uint64_t[ALLOC_VALUES]){ [ALLOC_ALLOCATED_OBJECTS] = 9000, [ALLOC_ALLOCATED] = 90 * MB });
	for (int64_t span = 0; span < SECONDS; span++) {
		const struct profile_labels then = { .pid = 7, .time_ns = span * 1000000000 ?: 1 };

		add(m, m->keep, &then,
		    (uint64_t[ALLOC_VALUES]){ [ALLOC_IN_USE_OBJECTS] = 20, [ALLOC_IN_USE] = 2 * MB });
	}
	/* A third at 1 ms, the rest at 1 s: half of it was younger than that. */
	add(m, m->churn, &(struct profile_labels){ .pid = 7, .age_ns = 1000000 },
	    (uint64_t[ALLOC_VALUES]){ [ALLOC_FREED_OBJECTS] = 3000, [ALLOC_FREED] = 30 * MB });
	add(m, m->churn, &(struct profile_labels){ .pid = 7, .age_ns = 1000000000 },
	    (uint64_t[ALLOC_VALUES]){ [ALLOC_FREED_OBJECTS] = 6000, [ALLOC_FREED] = 60 * MB });
}

static void add_series(const struct made *m)
{
	char text[8192];
	size_t n = 0;

	for (unsigned i = 0; i <= SECONDS * 4; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u:%u:100:0:0", i ? "," : "", i * 250,
				      50000 + i * 488);
	comment(m, "memory.series", text);
}

static void make(const char *windows, const char *permille, const char *linked, uint8_t **out, size_t *length)
{
	struct made m = { .b = profile_builder__new_values(1, SECONDS * 1000000000ull, alloc_value_types, ALLOC_VALUES,
							   ALLOC_IN_USE) };
	struct alloc_sums sums[SO_ALLOC_N_KINDS] = { [SO_ALLOC_MALLOC] = { 130e6, 9400, 90e6, 40e6, 250 } };
	char *kinds = alloc_profile__sums_text(sums);
	const uint64_t library = profile_builder__mapping(
		m.b, &(struct profile_mapping){ .filename = "/lib/libc.so.6", .build_id = "" });

	assert_non_null(kinds);
	m.keep[0] = m.churn[0] =
		profile_builder__location(m.b, &(struct profile_frame){ .name = "malloc", .mapping_id = library });
	m.keep[1] = frame(m.b, "keep", 12);
	m.churn[1] = frame(m.b, "churn", 40);
	add_samples(&m);
	add_series(&m);
	comment(&m, "pid", "7");
	comment(&m, "memory.page_bytes", "524288");
	comment(&m, "memory.cost_ns", "200000000");
	comment(&m, "memory.time_ns", "20000000000");
	comment(&m, "alloc.allocators", kinds);
	comment(&m, "alloc.hits", "20000");
	comment(&m, "alloc.seen_ns", "10000000000");
	comment(&m, "alloc.linked", linked);
	comment(&m, "alloc.windows", windows);
	comment(&m, "alloc.probes_permille", permille);
	assert_int_equal(profile_builder__finish(m.b, out, length), 0);
	profile_builder__free(m.b);
	free(kinds);
}

static const struct alloc_line *line_of(const struct alloc_report *r, const char *name)
{
	for (size_t i = 0; i < r->n_lines; i++)
		if (!strncmp(r->lines[i].line.text, name, strlen(name)))
			return &r->lines[i];
	fail();
	return NULL;
}

static void lines_and_sums(void **state)
{
	_cleanup_(alloc_report) struct alloc_report r = { .n_lines = 0 };
	const struct alloc_line *keep, *churn;
	uint8_t *bytes;
	size_t length;

	make("0", "0", "1", &bytes, &length);
	assert_true(alloc_report__is(bytes, length));
	assert_int_equal(alloc_report__read(bytes, length, &r, NULL), 0);
	assert_int_equal(r.n_lines, 2);
	churn = line_of(&r, "churn");
	keep = line_of(&r, "keep");
	assert_ptr_equal(churn, &r.lines[0]);
	assert_true(churn->line.allocated == 90e6 && churn->freed == 90e6 && churn->line.in_use == 0);
	assert_true(churn->calls == 9000 && churn->age_ns == 1e9);
	assert_true(keep->line.allocated == 40e6 && keep->freed == 0 && keep->line.in_use == 40e6);
	assert_true(keep->age_ns == 0);
	assert_int_equal(r.n_kinds, 1);
	assert_string_equal(r.kinds[0].name, "malloc");
	assert_true(r.bytes == 130e6 && fabs(r.error - sqrt(130e6 * 524288)) < 1);
	/* 2 MB of each second, but for the last tenth: kept in both halves of the time. */
	assert_int_equal(r.memory.growth.own.verdict, GROWTH_STEADY);
	assert_non_null(alloc_report__culprit(&r));
	assert_string_equal(alloc_report__culprit(&r)->text, keep->line.text);
	free(bytes);
}

static void windows_name_no_line(void **state)
{
	_cleanup_(alloc_report) struct alloc_report r = { .n_lines = 0 };
	uint8_t *bytes;
	size_t length;

	make("20", "350", "1", &bytes, &length);
	assert_int_equal(alloc_report__read(bytes, length, &r, NULL), 0);
	assert_true(r.windowed && !r.dense);
	assert_null(alloc_report__culprit(&r));
	assert_true(fabs(r.seen_percent - 50) < 0.01);
	/* Half of 35/65 of it come on top. */
	assert_true(fabs(r.error - hypot(sqrt(130e6 * 524288), 130e6 * 0.5 * 0.35 / 0.65)) < 1);
	free(bytes);
}

static void too_little_to_scale_by_is_said(void **state)
{
	_cleanup_(alloc_report) struct alloc_report r = { .n_lines = 0 };
	char *text = NULL;
	size_t n, length;
	uint8_t *bytes;
	FILE *out = open_memstream(&text, &n);

	make("20", "990", "1", &bytes, &length);
	assert_int_equal(alloc_report__read(bytes, length, &r, NULL), 0);
	assert_true(r.dense);
	alloc_report__print(&r, 1, out);
	fclose(out);
	assert_non_null(strstr(text, "wrong by a multiple"));
	assert_non_null(strstr(text, "at most that much"));
	assert_non_null(strstr(text, "and 1 more lines"));
	free(text);
	free(bytes);
}

static void json_has_it_all(void **state)
{
	_cleanup_(alloc_report) struct alloc_report r = { .n_lines = 0 };
	uint8_t *bytes;
	size_t length;
	json_t *json;

	make("0", "0", "1", &bytes, &length);
	assert_int_equal(alloc_report__read(bytes, length, &r, NULL), 0);
	json = alloc_report__json(&r);
	assert_non_null(json);
	assert_int_equal(json_array_size(json_object_get(json, "lines")), 2);
	assert_int_equal(json_array_size(json_object_get(json, "allocators")), 1);
	assert_true(json_is_false(json_object_get(json, "windowed")));
	assert_true(fabs(json_real_value(json_object_get(json, "cost_percent")) - 1) < 0.01);
	json_decref(json);
	free(bytes);
}

static void what_cannot_be_read_is_refused(void **state)
{
	_cleanup_(alloc_report) struct alloc_report r = { .n_lines = 0 };
	struct so_error err = { .text = "" };
	uint8_t *bytes;
	size_t length;

	make("0", "0", "0", &bytes, &length);
	assert_int_equal(alloc_report__check(bytes, length, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "process 7"));
	assert_false(alloc_report__is(bytes, length / 2));
	assert_true(alloc_report__read(bytes, length / 2, &r, &err) < 0);
	free(bytes);
}

static void who_has_ended_has_nothing(void **state)
{
	struct alloc_lives lives = { .n = 0 };

	for (uint32_t tgid = 1; tgid <= 100; tgid++)
		assert_int_equal(alloc_lives__add(&lives, tgid, tgid % 3 ? tgid * 1000 : ALLOC_LIVES_ENDED), 0);
	assert_int_equal(alloc_lives__add(&lives, 200, 0), 0);
	assert_true(alloc_lives__has(&lives, 100) && !alloc_lives__has(&lives, 101));
	/* It executed its program then. */
	assert_true(alloc_lives__may_use(&lives, 100, 100000) && alloc_lives__may_use(&lives, 100, UINT64_MAX));
	assert_false(alloc_lives__may_use(&lives, 100, 99999));
	assert_false(alloc_lives__may_use(&lives, 99, UINT64_MAX));
	assert_true(alloc_lives__may_use(&lives, 200, 0) && alloc_lives__may_use(&lives, 300, 0));
	alloc_lives__release(&lives);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_and_sums),       cmocka_unit_test(who_has_ended_has_nothing),
		cmocka_unit_test(windows_name_no_line), cmocka_unit_test(too_little_to_scale_by_is_said),
		cmocka_unit_test(json_has_it_all),      cmocka_unit_test(what_cannot_be_read_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
