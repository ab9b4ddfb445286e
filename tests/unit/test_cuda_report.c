// SPDX-License-Identifier: GPL-2.0-or-later
/* The daemon's answer about CUDA calls, read; and answers that are none. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/cuda_answers.h"
#include "stakeout/cuda_names.h"

#define UNDERSTOOD "the daemon's answer about CUDA calls is not understood: "

static void everything_is_read(void **state)
{
	_cleanup_(cuda_report) struct cuda_report *report = cuda_read(CUDA_TRAINING);
	const struct cuda_call *call = &report->calls[0];
	const struct cuda_library *library = call->library;

	assert_int_equal(report->pid, 1234);
	assert_string_equal(report->comm, "python3");
	assert_true(report->duration_s == 10 && report->cpu_s == 6.5);
	assert_true(report->available && !report->estimated);
	assert_int_equal(report->n_problems, 1);
	assert_int_equal(report->n_losses, 1); /* one is 0 */
	assert_string_equal(report->losses[0].word, "unfinished");
	assert_int_equal(report->losses[0].count, 2);
	assert_true(report->watching.overhead_percent == 3.44 && report->watching.n_rungs == 1);
	assert_int_equal(report->watching.stack_period[SO_CUDA_LAUNCH], 100);
	assert_int_equal(report->watching.stack_period[SO_CUDA_WAIT], 50);
	assert_int_equal(report->watching.stack_period[SO_CUDA_SET], 0);
	assert_int_equal(report->watching.stack_time_ns[SO_CUDA_LAUNCH], 15200000);
	assert_int_equal(report->watching.stack_time_ns[SO_CUDA_WAIT], 0);
	assert_int_equal(report->n_libraries, 2);
	assert_string_equal(library->path, "/opt/torch/lib/libcudart.so.12");
	assert_int_equal(library->n_probes, 2);
	assert_int_equal(library->probes[0].address, 0x4c1d4);
	assert_int_equal(library->probes[0].offset, 4);
	assert_true(library->probes[0].emulated && !library->probes[1].emulated);
	assert_int_equal(report->n_calls, 14);
	assert_int_equal(call->kind, SO_CUDA_LAUNCH);
	assert_int_equal(call->kernel_address, 0x7f1200001000);
	assert_int_equal(call->n_buckets, 6);
	assert_int_equal(call->buckets[0].count, 20000);
	assert_int_equal(latency_lower(call->buckets[0].index / LATENCY_BUCKETS,
				       call->buckets[0].index % LATENCY_BUCKETS),
			 2944);
	assert_int_equal(call->grid[0], 256);
	assert_null(report->calls[2].kernel);
	assert_true(report->calls[2].kernel_address && !report->calls[4].kernel_address);
	assert_null(report->calls[3].library); /* number 3 is not in the list */
	assert_int_equal(report->n_lines, 9);
	assert_int_equal(report->lines[0].stack.n_frames, 8);
	assert_int_equal(report->allocations[0].current_bytes, -100000000);
	assert_int_equal(report->n_devices, 2);
	assert_true(isnan(report->devices[1].process_utilisation_percent));
}

static void almost_nothing_is_an_answer(void **state)
{
	_cleanup_(cuda_report) struct cuda_report *report =
		cuda_read("{'new':[1,{'of':2}],'gpu':null,'comm':null}");

	assert_int_equal(report->n_calls, 0);
	assert_string_equal(report->comm, "");
	assert_true(report->available);
	assert_true(isnan(report->watching.budget_percent));
	assert_null(report->driver);
}

static void names_are_cleaned(void **state)
{
	_cleanup_(cuda_report) struct cuda_report *report = cuda_read(CUDA_ANSWER(
		"'problems':['  a\\u001b[2Jb\\u009bc\\u007f\\n '],"
		"'calls':[" CUDA_CALL("cudaLaunchKernel", "launch", "'kernel':'k\\u0007','calls':1") "]"));

	assert_string_equal(report->problems[0], "a?[2Jb?c??");
	assert_string_equal(report->calls[0].kernel, "k?");
}

static void counts_may_have_been_scaled(void **state)
{
	_cleanup_(cuda_report) struct cuda_report *report =
		cuda_read(CUDA_ANSWER("'estimated':true,'calls':[" CUDA_CALL(
			"cudaMalloc", "alloc",
			"'calls':2.5,'total_ns':1e3") "," CUDA_CALL("cudaMalloc", "alloc",
								    "'calls':0") "," CUDA_CALL("cudaNew",
											       "novel",
											       "'calls':1") "]"));

	assert_int_equal(report->n_calls, 2);
	assert_int_equal(report->calls[0].calls, 3);
	assert_int_equal(report->calls[0].total_ns, 1000);
	assert_int_equal(report->calls[1].kind, SO_CUDA_KIND_COUNT);
	assert_string_equal(cuda_names__kind_word(report->calls[1].kind), "other");
}

/* A row's word says what a call does; of older daemons blocking copies come as the others do. */
static void kinds_are_told_apart_by_the_call(void **state)
{
#define CALL(api, kind) CUDA_CALL(api, kind, "'calls':1")
	static const char answer[] = CUDA_ANSWER(
		"'calls':[" CALL("cudaMemcpy2D", "copy") "," CALL("cudaMemcpyAsync", "copy") "," CALL(
			"cudaMemcpy", "blocking-copy") "," CALL("cudaEventSynchronize",
								"sync") "," CALL("cudaFutureSynchronize",
										 "sync") "]");
	_cleanup_(cuda_report) struct cuda_report *report = cuda_read(answer);

	assert_int_equal(report->n_calls, 5);
	assert_int_equal(report->calls[0].kind, SO_CUDA_BLOCKING_COPY);
	assert_int_equal(report->calls[1].kind, SO_CUDA_COPY);
	assert_int_equal(report->calls[2].kind, SO_CUDA_BLOCKING_COPY);
	assert_int_equal(report->calls[3].kind, SO_CUDA_SYNC_EVENT);
	assert_string_equal(cuda_names__kind_word(SO_CUDA_SYNC_EVENT), "event-sync");
	assert_string_equal(cuda_names__does_word(SO_CUDA_SYNC_EVENT), "sync");
	/* One that this version does not know. */
	assert_int_equal(report->calls[4].kind, SO_CUDA_SYNC);
}

static void assert_refused_json(json_t *answer, int code, const char *expected)
{
	struct cuda_report *report = (void *)1;
	struct so_error err = { "" };

	assert_int_equal(cuda_report__read(answer, &report, &err), code);
	assert_string_equal(err.text, expected);
	assert_ptr_equal(report, (void *)1);
	json_decref(answer);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *answer, *words;
	} cases[] = {
		{ "[]", ": an object is expected" },
		{ "{'pid':'1'}", "pid: a whole number is expected" },
		{ "{'duration_s':-1}", "duration_s: a number from 0 is expected" },
		{ "{'duration_s':1e300}", "duration_s: a number from 0 is expected" },
		{ "{'available':1}", "available: true or false is expected" },
		{ "{'problems':['a',3]}", "problems: texts are expected" },
		{ "{'lost':{'x':-1}}", "x: a count from 0 is expected" },
		{ "{'lost':7}", "lost: an object is expected" },
		{ "{'probes':{'rungs':{'launch':2}}}", "launch: a text is expected" },
		{ "{'calls':{}}", "calls: a list is expected" },
		{ "{'calls':[1]}", "calls[0].: an object is expected" },
		{ "{'calls':[{'calls':1}]}", "calls[0].api: a function's name is expected" },
		{ "{'calls':[{'api':'a b'}]}", "calls[0].api: a function's name is expected" },
		{ "{'calls':[{'api':'a','calls':1},{'api':'a','calls':-1}]}",
		  "calls[1].calls: a count from 0 is expected" },
		{ "{'calls':[{'api':'a','total_ns':1e30}]}", "calls[0].total_ns: a count from 0 is expected" },
		{ "{'calls':[{'api':'a','calls':true}]}", "calls[0].calls: a count from 0 is expected" },
		{ "{'calls':[{'api':'a','min_ns':2,'max_ns':1}]}", "calls[0].min_ns: above max_ns" },
		{ "{'calls':[{'api':'a','calls':1,'errors':2}]}", "calls[0].errors: more than calls" },
		{ "{'calls':[{'api':'a','squares_ns2':-1.0}]}",
		  "calls[0].squares_ns2: a number from 0 is expected" },
		{ "{'calls':[{'api':'a','kernel':[]}]}", "calls[0].kernel: a text is expected" },
		{ "{'calls':[{'api':'a','kernel_address':'12'}]}",
		  "calls[0].kernel_address: an address such as \"0x7f12\" is expected" },
		{ "{'calls':[{'api':'a','kernel_address':'0x11112222333344445'}]}",
		  "calls[0].kernel_address: an address such as \"0x7f12\" is expected" },
		{ "{'calls':[{'api':'a','grid':[1,2]}]}", "calls[0].grid: three counts are expected" },
		{ "{'errors':[{'code':4294967296,'count':1}]}", "errors[0].code: a 32-bit code is expected" },
		{ "{'gpu':{'devices':[{'utilisation_percent':101}]}}",
		  "devices[0].utilisation_percent: a number in its range is expected" },
	};
	char expected[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(expected, sizeof(expected), UNDERSTOOD "%s", cases[i].words);
		assert_refused_json(cuda_answer(cases[i].answer), -EPROTO, expected);
	}
}

/* jansson's parser refuses one, unless it is told not to. */
static void a_zero_byte_is_refused(void **state)
{
	assert_refused_json(json_pack("{s:[o]}", "problems", json_stringn_nocheck("a\0b", 3)), -EPROTO,
			    UNDERSTOOD ": a text with a zero byte");
}

/* Each bucket must be one of latency.h's, and they must rise. */
static void other_histograms_are_refused(void **state)
{
	static const char *const histograms[] = {
		"[[0,1]]",           "[[0,1,2,3]]",
		"[[0,2,1]]",         "[[33,1,1]]",
		"[[64,4,1]]",        "[[65,2,1]]",
		"[[-1,1,1]]",        "[[0,1,-1]]",
		"[[1,1,1],[1,1,1]]", "[[2,1,1],[1,1,1]]",
		"[[0,1,1.5]]",       "[7]",
		"[[1.0,1.0,1]]",     "[[1099511627776,1,1]]",
	};

	for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++) {
		bool valid = !strcmp(histograms[i],
				     "[[33,1,1]]"); /* the second octave's are one nanosecond wide, too */
		char text[256];
		json_t *answer;
		struct cuda_report *report = NULL;

		snprintf(text, sizeof(text), "{'calls':[{'api':'a','calls':1,'histogram':%s}]}", histograms[i]);
		answer = cuda_answer(text);
		if (!valid) {
			assert_refused_json(answer, -EPROTO,
					    UNDERSTOOD
					    "calls[0].histogram: rising [lower_ns, width_ns, count] of this "
					    "version are expected");
			continue;
		}
		assert_int_equal(cuda_report__read(answer, &report, NULL), 0);
		assert_int_equal(report->calls[0].buckets[0].index, 33);
		cuda_report__free(report);
		json_decref(answer);
	}
}

static void a_million_rows_are_too_many(void **state)
{
	json_t *answer = json_object(), *rows = json_array(), *row = cuda_answer("{'api':'a','calls':1}");

	for (int i = 0; i < 1000000; i++)
		json_array_append(rows, row);
	json_object_set_new(answer, "calls", rows);
	json_decref(row);
	assert_refused_json(answer, -EFBIG, UNDERSTOOD "calls: too many elements");
}

static void deep_nesting_is_passed_over(void **state)
{
	enum { DEPTH = 1500 };
	char *text = malloc(2 * DEPTH + 64), *at = text;
	json_t *answer;
	struct cuda_report *report = NULL;

	at += sprintf(at, "{'pid':5,'new':");
	for (int i = 0; i < DEPTH; i++)
		*at++ = '[';
	for (int i = 0; i < DEPTH; i++)
		*at++ = ']';
	strcpy(at, "}");
	answer = cuda_answer(text);
	assert_int_equal(cuda_report__read(answer, &report, NULL), 0);
	assert_int_equal(report->pid, 5);
	cuda_report__free(report);
	json_decref(answer);
	free(text);
}

/* Student's t for 95 %, by published tables. */
static void intervals_have_students_factor(void **state)
{
	static const struct {
		double windows, factor;
	} known[] = { { 2, 12.706 }, { 3, 4.303 },  { 4, 3.182 },   { 6, 2.571 },
		      { 11, 2.228 }, { 31, 2.042 }, { 1001, 1.962 } };
	struct cuda_report report = { .estimated = true, .apis_known = true };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		/* Rates of mean 10 and variance 1. */
		report.estimate = (struct so_cuda_estimate){ .windows = known[i].windows,
							     .rates = 10 * known[i].windows,
							     .squares = 101 * known[i].windows - 1,
							     .weight = 1 };
		assert_true(fabs(cuda_report__interval(&report) / known[i].factor - 1) < 0.01);
	}
	report.estimate.slowdown = 5;
	assert_true(fabs(cuda_report__interval(&report) - 6.962) < 0.01);
	/* One window in twenty may be blind. */
	report.estimate.blind = 50;
	assert_false(isnan(cuda_report__interval(&report)));
	report.estimate.blind = 51;
	assert_true(isnan(cuda_report__interval(&report)));
	report.estimate.blind = 0;
	report.estimate.windows = 1;
	assert_true(isnan(cuda_report__interval(&report)));
	report.estimate = (struct so_cuda_estimate){ 0 };
	assert_true(cuda_report__interval(&report) == 0);
	report.apis_known = false;
	assert_true(isnan(cuda_report__interval(&report)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals_have_students_factor),
		cmocka_unit_test(everything_is_read),
		cmocka_unit_test(almost_nothing_is_an_answer),
		cmocka_unit_test(names_are_cleaned),
		cmocka_unit_test(counts_may_have_been_scaled),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(kinds_are_told_apart_by_the_call),
		cmocka_unit_test(other_histograms_are_refused),
		cmocka_unit_test(a_million_rows_are_too_many),
		cmocka_unit_test(deep_nesting_is_passed_over),
		cmocka_unit_test(a_zero_byte_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
