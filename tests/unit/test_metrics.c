// SPDX-License-Identifier: GPL-2.0-or-later
/* The metrics over an engine that answers what a test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/metrics/metrics.h"
#include "daemon/metrics/metrics_text.h"
#include "stakeout/cuda_api.h"
#include "tests/unit/made_profile.h"

static const char *status_text, *stats_text;
static json_t *cuda_answer; /* of every target; NULL: without CUDA */

json_t *engine__status(struct engine *engine)
{
	return json_loads(status_text, 0, NULL);
}

json_t *engine__stats(struct engine *engine, uint32_t id, struct so_error *err)
{
	return id == 404 ? NULL : json_loads(stats_text, 0, NULL);
}

int engine__cuda_calls(struct engine *engine, uint32_t id, json_t **out, struct so_error *err)
{
	if (!cuda_answer)
		return -ENODATA;
	*out = json_incref(cuda_answer);
	return 0;
}

/* What daemon/metrics/category_windows.c would ask, which has no part in this. */
int engine__info(struct engine *engine, uint32_t id, struct target_info *out)
{
	return -ENOENT;
}

int engine__begin_windows(struct engine *engine, uint32_t id, bool cuda, struct so_error *err)
{
	return -ENOENT;
}

int engine__window(struct engine *engine, uint32_t id, struct engine_window *out, struct so_error *err)
{
	return -ENOENT;
}

void engine__end_windows(struct engine *engine, uint32_t id)
{
}

static struct metrics_more more;

static int setup(void **state)
{
	more = (struct metrics_more){ 0 };
	status_text =
		"{\"version\": \"v1\", \"uptime_s\": 2.5, \"processes\": 3, \"unwind\": {\"bytes\": 4096},"
		"\"bpf\": {\"programs\": {\"sample_user\": {\"run_count\": 7, \"run_ns\": 1500},"
		"\"on_fork\": {\"run_count\": null, \"run_ns\": null}}},"
		"\"daemon\": {\"cpu_s\": 0.125, \"rss_bytes\": 1000000}}";
	stats_text =
		"{\"duration_s\": 10.5, \"sample_hz\": 99, \"samples\": 1000, \"complete\": 900,"
		"\"truncated\": {\"no-rules\": 90}, \"lost\": {\"counts-map-full\": 10}, \"attach_ms\": 24,"
		"\"overhead_percent\": 0.5}";
	cuda_answer = NULL;
	return 0;
}

static char *text_of(const struct target_info *targets, size_t n)
{
	size_t length;
	char *text = NULL;

	assert_int_equal(metrics__text(NULL, targets, n, &more, &text, &length), 0);
	assert_int_equal(strlen(text), length);
	assert_int_equal(text[length - 1], '\n');
	return text;
}

/* The value of the line that begins so; fails where there is none or more than one. */
static const char *value_of(const char *text, const char *series)
{
	static char value[64];
	const char *found = NULL;
	size_t n = strlen(series);

	for (const char *line = text; line[0]; line = strchr(line, '\n') + 1)
		if (!strncmp(line, series, n) && line[n] == ' ') {
			assert_null(found);
			found = line + n + 1;
		}
	if (!found)
		fail_msg("no %s in:\n%s", series, text);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(found, "\n"), found);
	return value;
}

static const struct target_info target = {
	.id = 5, .pid = 42, .comm = "py\"th\\on", .state = TARGET_SAMPLING, .processes = 2
};

#define LABELS "id=\"5\",pid=\"42\",comm=\"py\\\"th\\\\on\""

static void daemon_and_target(void **state)
{
	_cleanup_free_ char *text = text_of(&target, 1);

	assert_string_equal(value_of(text, "stakeout_build_info{version=\"v1\"}"), "1");
	assert_string_equal(value_of(text, "stakeout_uptime_seconds"), "2.5");
	assert_string_equal(value_of(text, "stakeout_daemon_cpu_seconds_total"), "0.125");
	assert_string_equal(value_of(text, "stakeout_daemon_resident_memory_bytes"), "1000000");
	assert_string_equal(value_of(text, "stakeout_bpf_runs_total{program=\"sample_user\"}"), "7");
	assert_string_equal(value_of(text, "stakeout_bpf_run_seconds_total{program=\"sample_user\"}"),
			    "1.5e-06");
	assert_null(strstr(text, "on_fork")); /* not measured is not 0 */
	assert_string_equal(value_of(text, "stakeout_targets{state=\"sampling\"}"), "1");
	assert_string_equal(value_of(text, "stakeout_targets{state=\"ended\"}"), "0");
	assert_string_equal(value_of(text, "stakeout_target_samples_total{" LABELS "}"), "1000");
	assert_string_equal(value_of(text, "stakeout_target_elapsed_seconds{" LABELS "}"), "10.5");
	assert_string_equal(value_of(text, "stakeout_target_processes{" LABELS "}"), "2");
	assert_string_equal(value_of(text, "stakeout_target_attach_seconds{" LABELS "}"), "0.024");
	assert_string_equal(value_of(text, "stakeout_target_overhead_ratio{" LABELS "}"), "0.005");
	assert_string_equal(
		value_of(text, "stakeout_target_lost_samples_total{" LABELS ",cause=\"counts-map-full\"}"),
		"10");
	assert_string_equal(
		value_of(text, "stakeout_target_lost_samples_total{" LABELS ",cause=\"stacks-map-full\"}"),
		"0");
	assert_string_equal(
		value_of(text, "stakeout_target_truncated_samples_total{" LABELS ",cause=\"no-rules\"}"), "90");
	assert_null(strstr(text, "stakeout_cuda_call_duration_seconds_count"));
}

static void unknown_is_absent(void **state)
{
	_cleanup_free_ char *text = NULL;

	stats_text = "{\"overhead_percent\": null}";
	text = text_of(&target, 1);
	assert_null(strstr(text, "stakeout_target_overhead_ratio{"));
	assert_null(strstr(text, "stakeout_target_samples_total{"));
}

/* Each family once, its samples right after its two comment lines and nowhere else. */
static void families_lie_together(void **state)
{
	struct target_info many[3] = { target, target, target };
	_cleanup_free_ char *text = NULL, *seen = strdup(",");
	char family[128] = "";

	many[1].id = 6;
	many[2].id = 7;
	text = text_of(many, 3);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char name[128], key[132];

		if (sscanf(line, "# HELP %127s", name) == 1) {
			snprintf(key, sizeof(key), ",%s,", name);
			assert_null(strstr(seen, key));
			seen = realloc(seen, strlen(seen) + strlen(name) + 2);
			strcat(strcat(seen, name), ",");
			strcpy(family, name);
		} else if (line[0] == '#') {
			assert_int_equal(sscanf(line, "# TYPE %127s", name), 1);
			assert_string_equal(name, family);
		} else {
			assert_int_equal(strncmp(line, family, strlen(family)), 0);
		}
	}
}

static void targets_are_bounded(void **state)
{
	struct target_info many[METRICS_MAX_TARGETS + 3];
	_cleanup_free_ char *text = NULL;

	for (unsigned i = 0; i < METRICS_MAX_TARGETS + 3; i++) {
		many[i] = target;
		many[i].id = i + 1;
	}
	many[0].id = 404; /* forgotten meanwhile */
	text = text_of(many, METRICS_MAX_TARGETS + 3);
	assert_string_equal(value_of(text, "stakeout_targets_left_out"), "3");
	assert_string_equal(value_of(text, "stakeout_targets{state=\"sampling\"}"), "63");
	assert_non_null(strstr(text, "{id=\"64\","));
	assert_null(strstr(text, "{id=\"65\","));
	assert_null(strstr(text, "{id=\"404\","));
}

static json_t *call_row(const char *api, json_int_t errors, json_int_t total_ns, const char *histogram)
{
	return json_pack("{s:s, s:I, s:I, s:o}", "api", api, "errors", errors, "total_ns", total_ns,
			 "histogram", json_loads(histogram, 0, NULL));
}

static void cuda_rows_become_one_histogram(void **state)
{
#define BUCKET(le) "stakeout_cuda_call_duration_seconds_bucket{" LABELS ",api=\"cudaMalloc\",le=\"" le "\"}"
	_cleanup_free_ char *text = NULL;
	json_t *calls = json_array();

	/* Ends at 1024 ns, begins there; another thread's; beyond all bounds. */
	json_array_append_new(calls, call_row("cudaMalloc", 2, 5000, "[[992, 32, 3], [1024, 32, 4]]"));
	json_array_append_new(calls, call_row("cudaMalloc", 1, 7000, "[[0, 1, 1], [1073741824, 33554432, 5]]"));
	json_array_append_new(calls, call_row("neverHeardOf", 0, 1, "[[0, 1, 1]]"));
	cuda_answer = json_pack("{s:o, s:b, s:{s:i}}", "calls", calls, "estimated", 1, "lost", "unfinished", 8);
	text = text_of(&target, 1);
	json_decref(cuda_answer);
	assert_string_equal(value_of(text, BUCKET("1.024e-06")), "4");
	assert_string_equal(value_of(text, BUCKET("2.048e-06")), "8");
	assert_string_equal(value_of(text, BUCKET("1.073741824")), "8");
	assert_string_equal(value_of(text, BUCKET("+Inf")), "13");
	assert_string_equal(
		value_of(text, "stakeout_cuda_call_duration_seconds_count{" LABELS ",api=\"cudaMalloc\"}"),
		"13");
	assert_string_equal(
		value_of(text, "stakeout_cuda_call_duration_seconds_sum{" LABELS ",api=\"cudaMalloc\"}"),
		"1.2e-05");
	assert_string_equal(value_of(text, "stakeout_cuda_call_errors_total{" LABELS ",api=\"cudaMalloc\"}"),
			    "3");
	assert_string_equal(
		value_of(text, "stakeout_cuda_call_duration_seconds_count{" LABELS ",api=\"other\"}"), "1");
	assert_string_equal(value_of(text, "stakeout_cuda_estimated{" LABELS "}"), "1");
	assert_string_equal(value_of(text, "stakeout_cuda_lost_total{" LABELS ",cause=\"unfinished\"}"), "8");
	assert_string_equal(value_of(text, "stakeout_cuda_apis_under_other{" LABELS "}"), "0");
}

static void apis_are_bounded(void **state)
{
	static const char *const words[] = {
#define X(name, library, kind, args) #name,
		SO_CUDA_APIS(X)
#undef X
	};
	_cleanup_free_ char *text = NULL;
	json_t *calls = json_array();
	unsigned lines = 0;
	char expected[16];

	for (unsigned i = SO_CUDA_API_COUNT; i-- > 0;) /* the order of the rows does not matter */
		json_array_append_new(calls, call_row(words[i], 1, 10, "[[10, 1, 2]]"));
	cuda_answer = json_pack("{s:o}", "calls", calls);
	text = text_of(&target, 1);
	json_decref(cuda_answer);
	snprintf(expected, sizeof(expected), "%d", 2 * (SO_CUDA_API_COUNT - METRICS_MAX_APIS));
	assert_string_equal(
		value_of(text, "stakeout_cuda_call_duration_seconds_count{" LABELS ",api=\"other\"}"),
		expected);
	snprintf(expected, sizeof(expected), "%d", SO_CUDA_API_COUNT - METRICS_MAX_APIS);
	assert_string_equal(value_of(text, "stakeout_cuda_call_errors_total{" LABELS ",api=\"other\"}"),
			    expected);
	assert_string_equal(value_of(text, "stakeout_cuda_apis_under_other{" LABELS "}"), expected);
	assert_string_equal(value_of(text, "stakeout_cuda_call_duration_seconds_count{" LABELS
					   ",api=\"cudaLaunchKernel\"}"),
			    "2");
	for (const char *p = text; (p = strstr(p, "\nstakeout_cuda_call_duration_seconds_bucket")); p++)
		lines++;
	assert_int_equal(lines, (METRICS_MAX_APIS + 1) * METRICS_BUCKETS);
}

static void gpus(void **state)
{
	_cleanup_free_ char *text = NULL;

	cuda_answer = json_loads("{\"calls\": [], \"gpu\": {\"devices\": [{\"index\": 0, \"uuid\": \"GPU-1\","
				 "\"utilisation_percent\": 62.5, \"memory_used_bytes\": 17,"
				 "\"process_utilisation_percent\": null}]}}",
				 0, NULL);
	text = text_of(&target, 1);
	json_decref(cuda_answer);
	assert_string_equal(
		value_of(text, "stakeout_gpu_utilisation_ratio{" LABELS ",gpu=\"0\",uuid=\"GPU-1\"}"), "0.625");
	assert_string_equal(
		value_of(text, "stakeout_gpu_memory_used_bytes{" LABELS ",gpu=\"0\",uuid=\"GPU-1\"}"), "17");
	assert_null(strstr(text, "stakeout_gpu_process_utilisation_ratio{"));
}

static void categories(void **state)
{
#define CATEGORY(name) "stakeout_target_category_cpu_seconds_total{" LABELS ",category=\"" name "\"}"
	_cleanup_(category_rules) struct category_rules *rules = NULL;
	_cleanup_(category_counters) struct category_counters *counters = NULL;
	static const char own[] = "[a\"b]\nframe = ^Module\n";
	struct made_profile made = MADE_PROFILE_TRAINING;
	_cleanup_free_ uint8_t *profile = NULL;
	_cleanup_free_ char *before = NULL, *begun = NULL, *after = NULL;
	struct target_info two[] = { target, target };
	double sum = 0;
	uint64_t samples;
	size_t length;

	two[1].id = 6; /* a recording: without */
	assert_int_equal(category_rules__new(own, strlen(own), "own", &rules, NULL), 0);
	assert_int_equal(category_counters__new(NULL, rules, &counters), 0);
	more.categories = counters;
	before = text_of(two, 2);
	assert_null(strstr(before, "\nstakeout_target_category_cpu_seconds_total{"));
	category_counters__begin(counters, 5);
	begun = text_of(two, 2);
	assert_string_equal(value_of(begun, CATEGORY("logging")), "0");
	assert_string_equal(value_of(begun, CATEGORY("a\\\"b")), "0");
	assert_null(strstr(begun, "total{id=\"6\",pid=\"42\",comm=\"py\\\"th\\\\on\",category="));
	samples = made_profile__make(&made, &profile, &length);
	assert_int_equal(category_counters__add(counters, 5, profile, length, NULL), 0);
	after = text_of(two, 2);
	assert_true(atof(value_of(after, CATEGORY("a\\\"b"))) > 0);
	for (size_t i = 0; i < category_counters__count(counters); i++) {
		char series[256];

		if (strchr(category_counters__name(counters, i), '"'))
			continue;
		snprintf(series, sizeof(series), CATEGORY("%s"), category_counters__name(counters, i));
		sum += atof(value_of(after, series));
	}
	sum += atof(value_of(after, CATEGORY("a\\\"b")));
	assert_true(fabs(sum - (double)samples * 0.01010101) < 1e-6);
}

static void labels_that_are_known(void **state)
{
	struct target_info two[] = { target, target };
	_cleanup_free_ char *text = NULL;

	two[0].labels = (struct process_labels){ .rank = "0", .world_size = "8", .pod = "u-1" };
	two[0].rule = 3;
	two[1].id = 6;
	text = text_of(two, 2);
	assert_string_equal(value_of(text, "stakeout_target_info{" LABELS
					   ",rank=\"0\",world_size=\"8\",pod=\"u-1\",rule=\"3\"}"),
			    "1");
	assert_string_equal(value_of(text, "stakeout_target_info{id=\"6\",pid=\"42\",comm=\"py\\\"th\\\\on\"}"),
			    "1");
	assert_null(strstr(text, "stakeout_rules"));
}

static void rules_in_force(void **state)
{
	const struct match_rule_info rules[] = { { .id = 2, .attached = 7 }, { .id = 9 } };
	_cleanup_free_ char *none = NULL, *text = NULL;

	more.has_rules = true;
	none = text_of(&target, 1);
	assert_string_equal(value_of(none, "stakeout_rules"), "0");
	assert_null(strstr(none, "stakeout_rule_attached_total{"));
	more.rules = rules;
	more.n_rules = 2;
	text = text_of(&target, 1);
	assert_string_equal(value_of(text, "stakeout_rules"), "2");
	assert_string_equal(value_of(text, "stakeout_rule_attached_total{rule=\"2\"}"), "7");
	assert_string_equal(value_of(text, "stakeout_rule_attached_total{rule=\"9\"}"), "0");
}

static void label_values_and_numbers(void **state)
{
	static const struct {
		const char *value, *text;
		double number;
		const char *digits;
	} cases[] = {
		{ "a\\b\"c\nd", "a\\\\b\\\"c\\nd", 0, "0" },
		{ "\xff\x1b[31m\x7f", "??[31m?", -1, "-1" },
		{ "\xc3\xa9\xe2\x82", "\xc3\xa9??", 0.1, "0.1" },
		{ "\xc2\x9bx\xc2\xa0", "?x\xc2\xa0", 4503599627370497, "4503599627370497" },
		{ "", "", INFINITY, "+Inf" },
		{ "", "", -INFINITY, "-Inf" },
		{ "", "", NAN, "NaN" },
		{ "", "", 1e300, "1e+300" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct metrics_label labels[] = { { NULL, "x" }, { "a", cases[i].value } };
		_cleanup_free_ char *text = NULL;
		char expected[128];
		size_t n;
		FILE *f = open_memstream(&text, &n);

		metrics_text__sample(f, "m", labels, 2, cases[i].number);
		metrics_text__sample(f, "m", labels, 1, 1);
		fclose(f);
		snprintf(expected, sizeof(expected), "m{a=\"%s\"} %s\nm 1\n", cases[i].text, cases[i].digits);
		assert_string_equal(text, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(daemon_and_target, setup),
		cmocka_unit_test_setup(unknown_is_absent, setup),
		cmocka_unit_test_setup(families_lie_together, setup),
		cmocka_unit_test_setup(targets_are_bounded, setup),
		cmocka_unit_test_setup(cuda_rows_become_one_histogram, setup),
		cmocka_unit_test_setup(apis_are_bounded, setup),
		cmocka_unit_test_setup(gpus, setup),
		cmocka_unit_test_setup(categories, setup),
		cmocka_unit_test_setup(labels_that_are_known, setup),
		cmocka_unit_test_setup(rules_in_force, setup),
		cmocka_unit_test_setup(label_values_and_numbers, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
