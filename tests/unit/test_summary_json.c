// SPDX-License-Identifier: GPL-2.0-or-later
/* The summary as JSON: its keys, and that it says what the text says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/summary/summary.h"
#include "tests/unit/training_profile.h"

static json_t *json_of(const struct profile *profile, const char *stats_text, struct summary_request *request)
{
	struct category_rules *rules = NULL;
	json_t *stats = stats_text ? json_loads(stats_text, 0, NULL) : NULL, *json;
	struct so_error err = { "" };
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(!stats, !stats_text);
	assert_int_equal(category_rules__load(NULL, &rules, NULL), 0);
	request->rules = rules;
	assert_int_equal(summary__print_json(profile, stats, request, out, &err), 0);
	fclose(out);
	assert_int_equal(text[length - 1], '\n');
	json = json_loadb(text, length, 0, NULL);
	assert_non_null(json);
	free(text);
	json_decref(stats);
	category_rules__free(rules);
	return json;
}

static double number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_number(value));
	return json_number_value(value);
}

static const char *string(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	assert_non_null(value);
	return value;
}

static const json_t *first(const json_t *object, const char *key)
{
	const json_t *array = json_object_get(object, key);

	assert_true(json_is_array(array) && json_array_size(array));
	return json_array_get(array, 0);
}

static void keys_and_values(void **state)
{
	static const char stats[] =
		"{\"duration_s\": 10.5, \"sample_hz\": 100, \"complete\": 998, \"lost\": {\"x\": 1},"
		" \"overhead_percent\": 0.5}";
	const char *words[] = { "env step=PoleEnv.step$", "slip=PolEnv.stpe" };
	struct summary_request request = { 0 };
	struct phases *phases = NULL;
	const json_t *category, *row;
	json_t *json;

	assert_int_equal(phases__new(words, 2, &phases, NULL), 0);
	request.phases = phases;
	json = json_of(&training, stats, &request);
	assert_true(number(json, "version") == 1 && number(json, "samples") == 1000);
	assert_true(number(json, "cpu_s") == 10 && number(json, "duration_s") == 10.5);
	assert_true(number(json, "sample_hz") == 100 && number(json, "complete") == 998);
	assert_true(number(json, "overhead_percent") == 0.5);
	assert_true(number(json_object_get(json, "lost"), "x") == 1);
	assert_true(json_is_null(json_object_get(json, "truncated")));
	assert_true(json_is_null(json_object_get(json, "python")));
	assert_true(json_is_false(json_object_get(json, "gil_only")));

	category = first(json, "categories");
	assert_string_equal(string(category, "name"), "logging");
	assert_string_equal(string(category, "kind"), "activity");
	assert_true(number(category, "samples") == 800 && number(category, "percent") == 80);
	assert_true(number(category, "cpu_s") == 8);
	assert_true(number(category, "low_percent") > 77 && number(category, "low_percent") < 80);
	assert_true(number(category, "high_percent") > 80 && number(category, "high_percent") < 83);
	assert_string_equal(string(first(category, "functions"), "name"),
			    "Formatter.format (logging/__init__.py)");
	assert_string_equal(string(first(category, "callers"), "name"), "train_step (train.py:30)");
	assert_string_equal(string(first(category, "means"), "name"), "Python code");
	assert_string_equal(string(first(json, "means"), "name"), "Python code");

	row = first(json, "phases");
	assert_string_equal(string(row, "name"), "env step");
	assert_string_equal(string(row, "pattern"), "PoleEnv.step$");
	assert_true(number(row, "samples") == 70 && number(row, "matched_functions") == 1);
	assert_string_equal(string(first(row, "functions"), "name"), "PoleEnv.step (pole.py)");
	row = json_array_get(json_object_get(json, "phases"), 1);
	assert_true(number(row, "samples") == 0 && number(row, "matched_functions") == 0);
	assert_string_equal(json_string_value(json_array_get(json_object_get(row, "similar"), 0)),
			    "PoleEnv.step (pole.py)");

	row = first(json, "functions");
	assert_string_equal(string(row, "name"), "Formatter.format (logging/__init__.py)");
	assert_string_equal(string(row, "file"), LOGGING);
	assert_true(number(json_object_get(row, "self"), "samples") == 410);
	assert_true(number(json_object_get(row, "total"), "samples") == 680);
	row = first(json, "lines");
	assert_string_equal(string(row, "name"), "Formatter.format (logging/__init__.py:700)");
	assert_true(number(json_object_get(row, "self"), "samples") == 580);
	row = first(json, "threads");
	assert_string_equal(string(row, "name"), "train-7/7");
	assert_true(number(row, "samples") == 998);
	assert_int_equal(json_array_size(json_object_get(json, "threads")), 2);
	assert_string_equal(string(first(json, "processes"), "name"), "train-7");
	assert_true(number(first(json, "processes"), "samples") == 1000);
	json_decref(json);
	phases__free(phases);
}

/* The same keys, nothing in them. */
static void what_is_not_known_is_null(void **state)
{
	static const char *const keys[] = {
		"version",   "samples", "cpu_s",   "duration_s",       "sample_hz",  "gil_only", "complete",
		"truncated", "lost",    "python",  "overhead_percent", "categories", "means",    "phases",
		"functions", "lines",   "threads", "processes",        "only",       "wall",     "own_lines"
	};
	const struct profile none = { .n_samples = 0 };
	struct summary_request request = { .render = { .gil = true } };
	json_t *json = json_of(&none, NULL, &request);

	assert_int_equal(json_object_size(json), sizeof(keys) / sizeof(keys[0]));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_non_null(json_object_get(json, keys[i]));
	assert_true(number(json, "samples") == 0);
	assert_true(json_is_null(json_object_get(json, "cpu_s")));
	assert_true(json_is_null(json_object_get(json, "duration_s")));
	assert_true(json_is_null(json_object_get(json, "overhead_percent")));
	assert_true(json_is_true(json_object_get(json, "gil_only")));
	assert_int_equal(json_array_size(json_object_get(json, "categories")), 0);
	json_decref(json);
}

static void names_of_any_bytes(void **state)
{
	static struct profile_line line = { .function = "f\xff\x1b[2J",
					    .filename = "/a\xff.py",
					    .mapping = "" };
	static const uint32_t stack[] = { 0 };
	struct profile_sample sample = { .lines = stack, .n_lines = 1, .count = 1, .comm = "\xc3", .pid = 3 };
	const struct profile one = { .lines = &line, .n_lines = 1, .samples = &sample, .n_samples = 1 };
	const char *word = "x=\xff";
	struct summary_request request = { 0 };
	struct phases *phases = NULL;
	json_t *json;

	assert_int_equal(phases__new(&word, 1, &phases, NULL), 0);
	request.phases = phases;
	json = json_of(&one, NULL, &request);
	assert_string_equal(string(first(json, "functions"), "name"), "f??[2J (a?.py)");
	assert_true(json_is_null(json_object_get(first(json, "functions"), "file")));
	assert_true(json_is_null(json_object_get(first(json, "phases"), "pattern")));
	assert_string_equal(string(first(json, "processes"), "name"), "?-3");
	json_decref(json);
	phases__free(phases);
}

static void a_full_disk(void **state)
{
	struct summary_request request = { 0 };
	struct category_rules *rules = NULL;
	struct so_error err = { "" };
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	assert_int_equal(category_rules__load(NULL, &rules, NULL), 0);
	request.rules = rules;
	assert_int_equal(summary__print_json(&training, NULL, &request, full, &err), -EIO);
	assert_non_null(strstr(err.text, "No space left on device"));
	fclose(full);
	category_rules__free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_and_values),
		cmocka_unit_test(what_is_not_known_is_null),
		cmocka_unit_test(names_of_any_bytes),
		cmocka_unit_test(a_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
