// SPDX-License-Identifier: GPL-2.0-or-later
/* What the summary says of threads that wait: whose line it is, text and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/summary/own_line.h"
#include "client/summary/summary_wall.h"
#define PY(name, path, number)                                                                    \
	{                                                                                         \
		.function = name, .filename = path, .mapping = "", .line = number, .python = true \
	}
#define NATIVE(name, library)                                        \
	{                                                            \
		.function = name, .filename = "", .mapping = library \
	}
#define KERNEL(name)                                                                             \
	{                                                                                        \
		.function = name, .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true \
	}

#define JS(name, file, number)                                                    \
	{                                                                         \
		.function = name, .filename = file, .mapping = "", .line = number \
	}

enum {
	FUTEX,
	SEM,
	WAIT_LINE,
	QUEUE,
	CONSUME,
	SLEEP,
	PRODUCE,
	WORKER,
	HOLD,
	TORCH,
	CPP,
	FROZEN,
	POLL,
	STRIPPED,
	SCRIPT,
	PACKAGE,
	NODE,
};

static struct profile_line lines[] = {
	[FUTEX] = KERNEL("futex_do_wait"),
	[SEM] = NATIVE("sem_wait", "/usr/lib/libc.so.6"),
	[WAIT_LINE] = PY("Condition.wait", "/usr/lib/python3.11/threading.py", 320),
	[QUEUE] = PY("Queue.get", "/usr/lib/python3.11/queue.py", 171),
	[CONSUME] = PY("consume", "/app/loop.py", 12),
	[SLEEP] = KERNEL("hrtimer_nanosleep"),
	[PRODUCE] = PY("produce", "/app/loop.py", 5),
	[WORKER] = PY("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 81),
	[HOLD] = PY("hold", "/app/slow.py", 40),
	[TORCH] = PY("Module.__call__", "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", 9),
	[CPP] = NATIVE("Simulator::step()", "/app/libsim.so"),
	[FROZEN] = PY("_find_and_load", "<frozen importlib._bootstrap>", 3),
	[POLL] = NATIVE("[vdso]", "[vdso]"),
	[STRIPPED] = NATIVE("[libruby.so+0x20a240]", "/usr/lib/libruby.so"),
	[SCRIPT] = JS("renderPage", "/app/server.js", 15),
	[PACKAGE] = JS("render", "/app/node_modules/x/index.js", 3),
	[NODE] = JS("emit", "node:events", 518),
};

static size_t own(const uint32_t *stack, size_t n)
{
	const struct profile profile = { .lines = lines, .n_lines = sizeof(lines) / sizeof(lines[0]) };
	const struct profile_sample sample = { .lines = stack, .n_lines = n };

	return own_line(&profile, &sample);
}
#define OWN(...) own((const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static void the_line_that_its_user_wrote(void **state)
{
	assert_int_equal(OWN(FUTEX, SEM, WAIT_LINE, QUEUE, CONSUME, PRODUCE), CONSUME);
	assert_int_equal(OWN(CPP, TORCH, CONSUME), CONSUME);
	/* Without one of its own: the innermost of Python, else of a library, else of the C library, else at all. */
	assert_int_equal(OWN(FUTEX, SEM, FROZEN, WAIT_LINE, TORCH, CPP), FROZEN);
	assert_int_equal(OWN(FUTEX, SEM, CPP), CPP);
	assert_int_equal(OWN(SEM, CPP, NODE, PACKAGE, SCRIPT, NODE, CPP), SCRIPT);
	assert_int_equal(OWN(FUTEX, SEM, STRIPPED, CPP), CPP);
	assert_int_equal(OWN(FUTEX, SEM, STRIPPED), STRIPPED);
	assert_int_equal(OWN(FUTEX, POLL, SEM), POLL);
	assert_int_equal(OWN(FUTEX, SEM), SEM);
	assert_int_equal(OWN(FUTEX), FUTEX);
	assert_int_equal(own(NULL, 0), SIZE_MAX);
}

static const uint32_t s_consume[] = { FUTEX, SEM, WAIT_LINE, QUEUE, CONSUME }, s_run[] = { CONSUME },
		      s_sleep[] = { SLEEP, PRODUCE }, s_worker[] = { FUTEX, SEM, WORKER }, s_hold[] = { SLEEP, HOLD },
		      s_gil[] = { FUTEX, CONSUME };
#define SAMPLE(stack, ms, thread, name, what, lock)                                               \
	{                                                                                         \
		.lines = stack, .n_lines = sizeof(stack) / sizeof(*(stack)), .count = (ms)*1000,  \
		.value_ns = (ms)*1000000ll, .pid = 7, .tid = thread, .comm = name, .state = what, \
		.gil = PROFILE_GIL_##lock                                                         \
	}
/* Ten seconds: a consumer that is fed too slowly, its producer, a holder of the lock, and two threads without work. */
static struct profile_sample samples[] = {
	SAMPLE(s_run, 2000, 9, "eater", "running", HELD),      SAMPLE(s_run, 500, 9, "eater", "runnable", HELD),
	SAMPLE(s_consume, 6000, 9, "eater", "lock", RELEASED), SAMPLE(s_gil, 1500, 9, "eater", "gil", RELEASED),
	SAMPLE(s_sleep, 10000, 8, "maker", "sleep", RELEASED), SAMPLE(s_hold, 9000, 10, "keeper", "sleep", HELD),
	SAMPLE(s_hold, 1000, 10, "keeper", "running", HELD),   SAMPLE(s_worker, 10000, 11, "pool", "idle", RELEASED),
	SAMPLE(s_worker, 9900, 12, "pool", "idle", RELEASED),  SAMPLE(s_worker, 100, 12, "pool", "running", RELEASED),
};
static const struct profile fed = {
	.lines = lines,
	.n_lines = sizeof(lines) / sizeof(lines[0]),
	.samples = samples,
	.n_samples = sizeof(samples) / sizeof(samples[0]),
	.duration_ns = 10000000000,
	.period_ns = 10101010,
	.wall = true,
	.observation = 50000, /* 20 Hz */
};

static const struct summary_style style = { .native_interpreter = true, .top = 10 };

static struct summary_wall *summarise(const struct profile *profile, struct scope *scope)
{
	static const struct render_options options;
	struct summary_wall *wall;

	scope__init(profile, &options, &style, scope);
	assert_int_equal(summary_wall__new(scope, &wall), 0);
	return wall;
}

static void what_is_missing_is_said(void **state)
{
	const char *comments[] = { "stakeout.wall.without_ns=2500000000", "stakeout.wall.lost_ns=1000000000" };
	struct profile profile = fed;
	struct scope scope;
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	profile.comments = comments;
	profile.n_comments = 2;
	{
		_cleanup_(summary_wall) struct summary_wall *wall = summarise(&profile, &scope);

		summary_wall__print(wall, out);
	}
	fclose(out);
	assert_non_null(
		strstr(text, "\nfor 2.5 s of this there was no look at waiting threads: only who ran is in it\n"));
	assert_non_null(strstr(text, "\nfor 1.0 s of threads' time there was no memory: it is missing\n"));
	free(text);
}

static void as_text(void **state)
{
	struct scope scope;
	_cleanup_(summary_wall) struct summary_wall *wall = summarise(&fed, &scope);
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	summary_wall__print(wall, out);
	fclose(out);
	assert_string_equal(
		text, "largest: lock in consume (loop.py:12), 60.0 % [53.1, 66.5] of the time of eater-7/9, the busiest "
		      "thread of your code\n"
		      "  how sure: within the interval in 95 of 100 cases, by 200 looks\n"
		      "  look at: consume (loop.py:12) 60.0 %; meanwhile keeper-7/10: sleep in hold (slow.py:40)\n"
		      "5 threads ran 3.10 s in 10.0 s (31 % of one CPU); of their wall time, 50.0 s:\n"
		      "  idle 39.8 %, sleep 38.0 %, lock 12.0 %, running 6.2 %, gil 3.0 %, runnable 1.0 %\n"
		      " running  runnable  waiting    wall s  thread, and what it mostly waits for\n"
		      "  20.0 %     5.0 %    75.0 %     10.00  eater-7/9  lock in consume (loop.py:12)\n"
		      "  10.0 %     0.0 %    90.0 %     10.00  keeper-7/10  sleep in hold (slow.py:40)\n"
		      "   0.0 %     0.0 %   100.0 %     10.00  maker-7/8  sleep in produce (loop.py:5)\n"
		      "and 2 idle threads of pools\n"
		      "   wait  [95 % interval]     wall s  for what, and in which line (all shares are of the whole)\n"
		      " 20.0 %  [17.6, 22.6]        10.00  sleep in produce (loop.py:5)\n"
		      " 18.0 %  [15.7, 20.5]         9.00  sleep in hold (slow.py:40)\n"
		      " 12.0 %  [10.1, 14.2]         6.00  lock in consume (loop.py:12)\n"
		      "  3.0 %  [ 2.1,  4.3]         1.50  gil in consume (loop.py:12)\n"
		      "threads waited 1.50 s for the GIL, which these lines held (12.50 s in all):\n"
		      "(whether just then somebody waited needs times: record --wall --timeline)\n"
		      " 80.0 %  [74.6, 84.5]        10.00  hold (slow.py:40)\n"
		      " 20.0 %  [15.5, 25.4]         2.50  consume (loop.py:12)\n");
	free(text);
}

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

static void check_threads(const json_t *threads)
{
	const json_t *first = json_array_get(threads, 0), *last = json_array_get(threads, 4),
		     *wait = json_object_get(first, "waits_for");

	assert_int_equal(json_array_size(threads), 5);
	assert_string_equal(word(first, "name"), "eater-7/9");
	assert_int_equal(number(first, "pid"), 7);
	assert_int_equal(number(first, "tid"), 9);
	assert_true(number(first, "running_s") == 2 && number(first, "runnable_s") == 0.5);
	assert_true(number(first, "waiting_s") == 7.5 && number(first, "idle_s") == 0);
	assert_string_equal(word(wait, "state"), "lock");
	assert_string_equal(word(wait, "line"), "consume (loop.py:12)");
	assert_true(number(wait, "wall_s") == 6);
	assert_true(number(last, "idle_s") == 10);
	assert_true(json_is_null(json_object_get(last, "waits_for")));
}

static void as_json(void **state)
{
	struct scope scope;
	_cleanup_(summary_wall) struct summary_wall *wall = summarise(&fed, &scope);
	json_t *json = summary_wall__json(wall), *waits = json_object_get(json, "waits"),
	       *holders = json_object_get(json, "gil_holders"), *states = json_object_get(json, "states");
	double sum = 0;

	check_threads(json_object_get(json, "threads"));
	assert_int_equal(json_array_size(states), 6);
	assert_string_equal(word(json_array_get(states, 0), "state"), "idle");
	for (size_t i = 0; i < json_array_size(states); i++)
		sum += number(json_array_get(states, i), "wall_s");
	assert_true(sum > 49.999 && sum < 50.001);
	assert_int_equal(json_array_size(waits), 4);
	assert_string_equal(word(json_array_get(waits, 2), "line"), "consume (loop.py:12)");
	assert_string_equal(word(json_array_get(waits, 2), "state"), "lock");
	assert_int_equal(json_array_size(holders), 2);
	assert_string_equal(word(json_array_get(holders, 0), "line"), "hold (slow.py:40)");
	assert_true(number(json_array_get(holders, 0), "wall_s") == 10);
	json_decref(json);
}

static void a_profile_without_wall_time(void **state)
{
	struct profile cpu = fed;
	struct scope scope;
	json_t *json;

	cpu.wall = false;
	assert_null(summarise(&cpu, &scope));
	json = summary_wall__json(NULL);
	assert_true(json_is_null(json));
	json_decref(json);
}

/* Nothing was seen: nothing is said, and the lists are empty. */
static void a_profile_of_nothing(void **state)
{
	struct profile none = fed;
	struct scope scope;
	struct summary_wall *wall;
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);
	json_t *json;

	none.n_samples = 0;
	wall = summarise(&none, &scope);
	summary_wall__print(wall, out);
	fclose(out);
	assert_string_equal(text, "");
	free(text);
	json = summary_wall__json(wall);
	assert_int_equal(json_array_size(json_object_get(json, "threads")), 0);
	json_decref(json);
	summary_wall__free(wall);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_line_that_its_user_wrote), cmocka_unit_test(as_text),
		cmocka_unit_test(what_is_missing_is_said),      cmocka_unit_test(as_json),
		cmocka_unit_test(a_profile_without_wall_time),  cmocka_unit_test(a_profile_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
