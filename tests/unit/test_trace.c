// SPDX-License-Identifier: GPL-2.0-or-later
/* Tracks of a time line that a profile's comments tell, whatever these say. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "client/render/render.h"

/* The events of the comment's track, without the one that names it; the caller's. */
static json_t *events_of(const char *comment)
{
	static uint32_t line;
	struct profile_line lines[] = { { .function = "main", .filename = "", .mapping = "/usr/bin/x" } };
	struct profile_sample samples[] = {
		{ .lines = &line, .n_lines = 1, .comm = "x", .pid = 7, .tid = 7, .time_ns = 1000, .value_ns = 1000 }
	};
	const char *comments[] = { comment };
	const struct profile p = { .lines = lines,
				   .n_lines = 1,
				   .samples = samples,
				   .n_samples = 1,
				   .comments = comments,
				   .n_comments = 1,
				   .period_ns = 1000 };
	json_t *root, *found = json_array(), *event;
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0, i;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(render__trace(&p, NULL, out, &err), 0);
	fclose(out);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	json_array_foreach (json_object_get(root, "traceEvents"), i, event) {
		if (json_integer_value(json_object_get(event, "tid")) != 7 &&
		    !strcmp(json_string_value(json_object_get(event, "ph")), "X"))
			json_array_append(found, event);
	}
	json_decref(root);
	free(text);
	return found;
}

static double number(const json_t *event, const char *key)
{
	return json_number_value(json_object_get(event, key));
}

static void calls_have_their_times_and_bytes(void **state)
{
	json_t *events = events_of("stakeout.calls=7/9/cudaMemcpy:50000+60000x4096,100000+70500");
	const json_t *first = json_array_get(events, 0), *second = json_array_get(events, 1);

	assert_int_equal(json_array_size(events), 2);
	assert_string_equal(json_string_value(json_object_get(first, "name")), "cudaMemcpy");
	assert_float_equal(number(first, "ts"), 50, 1e-9);
	assert_float_equal(number(first, "dur"), 60, 1e-9);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "args"), "bytes")), 4096);
	assert_float_equal(number(second, "ts"), 150, 1e-9);
	assert_float_equal(number(second, "dur"), 70.5, 1e-9);
	assert_null(json_object_get(second, "args"));
	json_decref(events);
}

static void steps_are_what_lies_between_two_beginnings(void **state)
{
	json_t *events = events_of("stakeout.steps=7/7:1000,2000,500");

	assert_int_equal(json_array_size(events), 2);
	assert_float_equal(number(json_array_get(events, 1), "ts"), 3, 1e-9);
	assert_float_equal(number(json_array_get(events, 1), "dur"), 0.5, 1e-9);
	json_decref(events);
}

static void what_is_damaged_ends_there(void **state)
{
	static const struct {
		const char *comment;
		size_t n;
	} cases[] = {
		{ "stakeout.calls=", 0 },
		{ "stakeout.calls=7", 0 },
		{ "stakeout.calls=7/9:1+2", 0 },
		{ "stakeout.calls=7/-9/x:1+2", 0 },
		{ "stakeout.calls=7/8388608/x:1+2", 0 },
		{ "stakeout.calls=7/9/x:", 0 },
		{ "stakeout.calls=7/9/x:1+2,", 1 },
		{ "stakeout.calls=7/9/x:1+2,3", 1 },
		{ "stakeout.calls=7/9/x:1+2,-3+4", 1 },
		{ "stakeout.calls=7/9/x:1+2,3+-4", 1 },
		{ "stakeout.calls=7/9/x:1+2,3+4y", 1 },
		{ "stakeout.calls=7/9/x:1+2,3+4x-1", 1 },
		{ "stakeout.calls=7/9/x:1+2,9223372036854775807+1", 1 },
		{ "stakeout.calls=7/9/x:1+2,99999999999999999999+1", 1 },
		{ "stakeout.calls=7/9/\"\\\x01:1+2", 1 },
		{ "stakeout.steps=7/7:1,x", 0 },
		{ "stakeout.steps=7/7", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *events = events_of(cases[i].comment);

		if (json_array_size(events) != cases[i].n)
			fail_msg("%s: %zu events", cases[i].comment, json_array_size(events));
		json_decref(events);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_have_their_times_and_bytes),
		cmocka_unit_test(steps_are_what_lies_between_two_beginnings),
		cmocka_unit_test(what_is_damaged_ends_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
