/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the summary says of Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/summarise.h"

/* A training loop: the main thread holds the GIL while it computes, not in the matrix product. */
#define HELD     PROFILE_GIL_HELD
#define RELEASED PROFILE_GIL_RELEASED
static struct profile_line train_lines[] = {
	{ .function = "sgemm_kernel", .filename = "", .mapping = "/usr/lib/libopenblas.so.0" },
	{ .function = "Net.forward", .filename = "/app/net.py", .mapping = "", .line = 31, .python = true },
	{ .function = "Net.forward", .filename = "/app/net.py", .mapping = "", .line = 32, .python = true },
	{ .function = "main", .filename = "/app/train.py", .mapping = "", .line = 12, .python = true },
	{ .function = "[python:stale]", .filename = "", .mapping = "", .python = true },
	{ .function = "start_thread", .filename = "", .mapping = "/usr/lib/libc.so.6" },
};
static const uint32_t t_gemm[] = { 0, 1, 3, 5 }, t_forward[] = { 2, 1, 3, 5 }, t_stale[] = { 0, 4, 3 },
		      t_native[] = { 5 };
#define TRAIN(stack, samples, thread, name, state)                                                       \
	{                                                                                                \
		.lines = stack, .n_lines = sizeof(stack) / sizeof(*(stack)), .count = samples,           \
		.value_ns = (samples) * (int64_t)MS, .pid = 7, .tid = thread, .comm = name, .gil = state \
	}
static struct profile_sample train_samples[] = {
	TRAIN(t_gemm, 500, 7, "train", RELEASED),  TRAIN(t_forward, 300, 7, "train", HELD),
	TRAIN(t_stale, 2, 7, "train", HELD),       TRAIN(t_native, 98, 8, "pool", PROFILE_GIL_NONE),
	TRAIN(t_forward, 60, 9, "loader", HELD),   TRAIN(t_forward, 39, 9, "loader", RELEASED),
	TRAIN(t_native, 0, 10, "never", RELEASED),
};
static const struct profile train = {
	.lines = train_lines,
	.n_lines = 6,
	.samples = train_samples,
	.n_samples = 7,
	.duration_ns = 10000000000,
	.period_ns = MS,
};
#define TRAIN_HEAD                                                               \
	"999 samples in 10.0 s at 99 Hz (10.09 CPU s) of 1 process, 3 threads\n" \
	"complete 99.9 %   truncated 1: depth 1   lost 0\n"
#define TRAIN_GIL "GIL held in 40.2 % [37.0, 43.4] of Python samples: 3.66 CPU s in 10.0 s\n"
#define TRAIN_THREADS                                         \
	"    CPU  GIL held  [95 % interval]  Python thread\n" \
	" 80.3 %    37.7 %  [34.4, 41.1]     train-7/7\n"     \
	"  9.9 %    60.6 %  [50.8, 69.7]     loader-7/9\n"
#define TRAIN_LARGEST                                                          \
	"largest: inference, 90.0 % [88.0, 91.7], 9.08 CPU s\n"                \
	"  how sure: within the interval in 95 of 100 cases, by 999 samples\n" \
	"  look at: main (train.py:12) 90.0 %, which calls Net.forward (net.py) 90.0 %\n"
#define TRAIN_TABLES                                                                               \
	"   self  [95 % interval]    total  function (file)\n"                                     \
	" 50.3 %  [47.2, 53.3]      50.3 %  sgemm_kernel (libopenblas.so.0)\n"                     \
	" 39.9 %  [36.9, 43.0]      90.0 %  Net.forward (net.py)\n"                                \
	"  9.8 %  [ 8.1, 11.8]      99.8 %  start_thread (libc.so.6)\n"                            \
	"   line  [95 % interval]    total  function (file:line), with the native code it calls\n" \
	" 50.1 %  [47.0, 53.1]      90.0 %  Net.forward (net.py:31)\n"                             \
	" 39.9 %  [36.9, 43.0]      39.9 %  Net.forward (net.py:32)\n"                             \
	"  0.2 %  [ 0.1,  0.7]       0.2 %  [python:stale]\n"                                      \
	"  9.8 %  [ 8.1, 11.8]              no Python frame\n"
#define TRAIN_STATS                                                                                            \
	"{\"complete\": 998, \"truncated\": {\"depth\": 1}, \"lost\": {}, \"python\": "                        \
	"{\"versions\": [\"3.11\"], \"samples\": 901, \"complete\": 898, \"gil\": 362, "                       \
	"\"truncated\": {\"frame-unreadable\": 1, \"depth\": 0}, \"stale_frames\": 2, \"unreadable_frames\": " \
	"0}}"
#define TRAIN_PYTHON                                                                       \
	"Python 3.11: complete 99.7 % of 901 samples   truncated 1: frame-unreadable 1   " \
	"frames without name 2: stale 2\n"

static void python_is_told_with_its_threads(void **state)
{
	assert_summary(&train, TRAIN_STATS,
		       TRAIN_LARGEST TRAIN_HEAD TRAIN_PYTHON TRAIN_GIL
		       "cost: time a sample not measured, share of the target's CPU time not measured; "
		       "daemon not measured\n" TRAIN_THREADS TRAIN_TABLES);
}

static void python_from_a_file_alone(void **state)
{
	const char *comments[] = { "stakeout.complete=998",
				   "stakeout.truncated.depth=1",
				   "stakeout.python.version=3.11",
				   "stakeout.python.samples=901",
				   "stakeout.python.complete=898",
				   "stakeout.python.gil=362",
				   "stakeout.python.truncated.frame-unreadable=1",
				   "stakeout.python.stale=2",
				   "stakeout.python.unreadable=0" };
	struct profile own = train;

	own.comments = comments;
	own.n_comments = sizeof(comments) / sizeof(comments[0]);
	assert_summary(&own, NULL,
		       TRAIN_LARGEST TRAIN_HEAD TRAIN_PYTHON TRAIN_GIL
		       "cost: not measured\n" TRAIN_THREADS TRAIN_TABLES);
}

/* With one Python thread the figure for all is enough. */
static void one_python_thread_needs_no_table(void **state)
{
	struct profile one = train;
	char *text;

	one.n_samples = 4;
	text = summarise(&one, TRAIN_STATS);
	assert_non_null(strstr(text, "\nGIL held in 37.7 % [34.4, 41.1] of Python samples: 3.05 CPU s in 10.0 s\n"));
	assert_null(strstr(text, "Python thread"));
	free(text);
	/* Neither time is known: the share stays. */
	one.duration_ns = 0;
	text = summarise(&one, TRAIN_STATS);
	assert_non_null(strstr(text, "of Python samples\n"));
	free(text);
}

static void no_share_without_a_gil(void **state)
{
	struct profile_sample free_threaded[] = {
		TRAIN(t_forward, 30, 7, "train", PROFILE_GIL_DISABLED),
		TRAIN(t_forward, 10, 9, "loader", PROFILE_GIL_DISABLED),
	};
	struct profile p = train;
	char *text;

	p.samples = free_threaded;
	p.n_samples = 2;
	text = summarise(&p, TRAIN_STATS);
	assert_non_null(strstr(text, "no GIL (free-threaded) in 100.0 % of Python samples\n"));
	assert_null(strstr(text, "GIL held in"));
	assert_non_null(strstr(text, " 75.0 %    no GIL                   train-7/7\n"));
	free(text);
}

/* Code that CPython compiled, what it calls, and other compilers' below native code of a library. */
static void just_in_time_code(void **state)
{
	static struct profile_line lines[] = {
		{ .function = "[jit]", .filename = "", .mapping = "" },
		{ .function = "main", .filename = "/app/train.py", .mapping = "", .line = 12, .python = true },
		{ .function = "dispatch", .filename = "", .mapping = "/usr/lib/compiled.so" },
		{ .function = "start_thread", .filename = "", .mapping = "/usr/lib/libc.so.6" },
		{ .function = "_PyJIT_Entry", .filename = "", .mapping = "/usr/bin/python3.15" },
	};
	static const uint32_t own[] = { 0, 0, 1, 3 }, called[] = { 2, 0, 4, 1, 3 }, plain[] = { 2, 1, 3 },
			      others[] = { 0, 2, 1, 3 }, both[] = { 0, 2, 0, 1, 3 }, bare[] = { 0, 3 };
	struct profile_sample samples[] = {
		TRAIN(own, 20, 7, "train", HELD),    TRAIN(called, 5, 7, "train", HELD),
		TRAIN(plain, 75, 7, "train", HELD),  TRAIN(others, 0, 7, "train", HELD),
		TRAIN(both, 0, 7, "train", HELD),    TRAIN(bare, 0, 8, "node", PROFILE_GIL_NONE),
	};
	static const char own_words[] = "\n25.0 % of the Python samples are in code of CPython's just-in-time compiler, or "
					"called from it: their lines may be earlier ones of the same function\n";
	struct profile p = train;
	char *text;

	p.lines = lines;
	p.n_lines = 5;
	p.samples = samples;
	p.n_samples = sizeof(samples) / sizeof(samples[0]);
	text = summarise(&p, NULL);
	assert_non_null(strstr(text, own_words));
	assert_null(strstr(text, "node"));
	free(text);
	/* Other compilers' are named from three in ten on. */
	samples[2].count = 35;
	samples[3].count = 30;
	samples[4].count = 10;
	text = summarise(&p, NULL);
	assert_non_null(strstr(text, own_words));
	assert_non_null(strstr(text, "\n40 % is in just-in-time code without names ([jit]) or called from it; to have "
				     "them: node --perf-basic-prof"));
	free(text);
	samples[5].count = 50;
	samples[0].count = samples[1].count = 0;
	text = summarise(&p, NULL);
	assert_null(strstr(text, "CPython's"));
	assert_non_null(strstr(text, "\n72 % is in just-in-time code"));
	free(text);
}

static void five_threads_by_cpu_time(void **state)
{
	struct profile_sample many[] = {
		TRAIN(t_forward, 10, 1, "a", HELD),
		TRAIN(t_forward, 9, 2, "old", HELD),
		TRAIN(t_forward, 11, 2, "new", HELD),
		TRAIN(t_forward, 10, 3, "c\033;", RELEASED),
		TRAIN(t_forward, 5, 4, "d", HELD),
		TRAIN(t_forward, 5, 5, "e", HELD),
		TRAIN(t_forward, 5, 6, "f", HELD),
		TRAIN(t_forward, 1, 7, "g", HELD),
		TRAIN(t_native, 100, 8, "native", PROFILE_GIL_NONE),
	};
	struct profile p = train;
	char *text;

	p.samples = many;
	p.n_samples = sizeof(many) / sizeof(many[0]);
	/* The same thread number in another process. */
	many[5].pid = 6;
	text = summarise(&p, NULL);
	assert_non_null(strstr(text, "Python thread\n"
				     " 12.8 %   100.0 %  [83.9, 100.0]    new-7/2\n"
				     "  6.4 %   100.0 %  [72.2, 100.0]    a-7/1\n"
				     "  6.4 %     0.0 %  [ 0.0, 27.8]     c?:-7/3\n"
				     "  3.2 %   100.0 %  [56.6, 100.0]    e-6/5\n"
				     "  3.2 %   100.0 %  [56.6, 100.0]    d-7/4\n"
				     "and 2 more threads\n"
				     "   self "));
	free(text);
}

/* What of the third line follows "lost 0\n", up to the cost. */
static void assert_python_lines(const char *python, const char *expected)
{
	char stats[600], *text, *begin, *end;

	snprintf(stats, sizeof(stats), "{\"lost\": {}, \"python\": %s}", python);
	text = summarise(&train, stats);
	begin = strstr(text, "lost 0\n");
	end = strstr(text, "GIL held");
	assert_true(begin && end);
	*end = '\0';
	assert_string_equal(begin + strlen("lost 0\n"), expected);
	free(text);
}

static void python_problems_in_words(void **state)
{
	assert_python_lines("{\"versions\": [], \"problem\": \"CPython 3.7 is not supported: native frames only\"}",
			    "Python: CPython 3.7 is not supported: native frames only\n");
	assert_python_lines(
		"{\"versions\": [\"3.11\", \"3.12\"], \"samples\": 2000, \"complete\": 1999, \"truncated\": {},"
		" \"stale_frames\": 0, \"unreadable_frames\": 3, \"problem\": \"a\\nb\\u001b\\u009b\"}",
		"Python 3.11, 3.12: complete 99.9 % of 2000 samples   truncated 0   "
		"frames without name 3: unreadable 3\n"
		"Python: a?b??\n");
	assert_python_lines("{\"versions\": [\"3.11\"], \"samples\": 5, \"complete\": 5, \"truncated\": {},"
			    " \"stale_frames\": 1, \"unreadable_frames\": 2}",
			    "Python 3.11: complete 100.0 % of 5 samples   truncated 0   "
			    "frames without name 3: stale 1, unreadable 2\n");
	assert_python_lines("{\"versions\": [\"3.11\"], \"samples\": 0, \"complete\": 0, \"truncated\": {}}",
			    "Python 3.11: no samples of Python threads\n");
	assert_python_lines("{\"versions\": [\"3.11\"]}",
			    "Python 3.11: complete not measured   truncated not measured\n");
	assert_python_lines("{\"versions\": [null, 3], \"samples\": \"x\", \"problem\": 5}",
			    "Python: complete not measured   truncated not measured\n");
	assert_python_lines("{}", "");
	assert_python_lines("7", "");
}

/* Texts of a file that somebody else wrote. */
static void hostile_python_comments(void **state)
{
	static char endless[1000];
	const char *comments[] = { "stakeout.complete=1",
				   "stakeout.python.problem=\xff",
				   endless,
				   "stakeout.python.problem=second",
				   "stakeout.python.version=\xc3",
				   "stakeout.python.version=\x1b[2J",
				   "stakeout.python.samples=-1",
				   "stakeout.python.complete=99999999999999999999",
				   "stakeout.python.truncated.a b=1" };
	struct profile own = train;
	char *text;

	memset(endless, 'x', sizeof(endless) - 1);
	memcpy(endless, "stakeout.python.problem=", strlen("stakeout.python.problem="));
	own.comments = comments;
	own.n_comments = sizeof(comments) / sizeof(comments[0]);
	text = summarise(&own, NULL);
	assert_non_null(strstr(text, "\nPython ?[2J: complete not measured   truncated 0\nPython: xxxx"));
	/* 100 columns, of which one is the ellipsis. */
	assert_int_equal(strcspn(strstr(text, "\nPython: x") + 1, "\n"), strlen("Python: ") + 99 + strlen("…"));
	assert_null(strstr(text, "second"));
	free(text);
}

static void the_gil_alone(void **state)
{
	const struct render_options gil = { .gil = true };
	struct profile none = train;
	char *text = summarise_part(&train, TRAIN_STATS, &gil);

	/* What the page was made of is of all samples. */
	assert_non_null(strstr(text, TRAIN_HEAD TRAIN_PYTHON TRAIN_GIL));
	assert_non_null(strstr(text, TRAIN_THREADS));
	assert_non_null(strstr(text,
			       "of the 362 samples that held the GIL:\n"
			       "largest: inference, 99.4 % [98.0, 99.8], 3.64 CPU s\n"
			       "  how sure: within the interval in 95 of 100 cases, by 362 samples\n"
			       "  look at: main (train.py:12) 99.4 %, which calls Net.forward (net.py) 99.4 %\n"));
	assert_non_null(strstr(text, "\n   self  [95 % interval]    total  function (file)\n"
				     " 99.4 %  [98.0, 99.8]      99.4 %  Net.forward (net.py)\n"
				     "  0.6 %  [ 0.2,  2.0]       0.6 %  sgemm_kernel (libopenblas.so.0)\n\n"));
	assert_non_null(strstr(
		text, "\n   line  [95 % interval]    total  function (file:line), with the native code it calls\n"
		      " 99.4 %  [98.0, 99.8]      99.4 %  Net.forward (net.py:32)\n"
		      "  0.6 %  [ 0.2,  2.0]       0.6 %  [python:stale]\n"));
	free(text);
	none.n_samples = 1;
	text = summarise_part(&none, NULL, &gil);
	assert_non_null(strstr(text, "of the 0 samples that held the GIL:\n\nWhat this was made of\n"));
	free(text);
}

static void python_functions_with_their_native_code(void **state)
{
	const struct render_options python_only = { .python_only = true };
	char *text = summarise_part(&train, NULL, &python_only);

	assert_non_null(strstr(text,
			       "   self  [95 % interval]    total  function (file), with the native code it calls\n"
			       " 90.0 %  [88.0, 91.7]      90.0 %  Net.forward (net.py)\n"
			       "  9.8 %  [ 8.1, 11.8]       9.8 %  [native]\n"
			       "  0.2 %  [ 0.1,  0.7]       0.2 %  [python:stale]\n\n"));
	assert_non_null(strstr(text,
			       "\n\nPython functions, with all that they call\n"
			       "  total  [95 % interval]      CPU s  Python function (file), with all that it calls\n"
			       " 90.2 %  [88.2, 91.9]         9.10  main (train.py)\n"
			       " 90.0 %  [88.0, 91.7]         9.08  Net.forward (net.py)\n"
			       "  0.2 %  [ 0.1,  0.7]         0.02  [python:stale]\n\n"));
	free(text);
}

static void ten_lines(void **state)
{
	enum { N = 12 };
	struct profile_line many[N];
	struct profile_sample each[N];
	uint32_t stacks[N][3];
	struct profile p = { .lines = many, .n_lines = N, .samples = each, .n_samples = N };
	char *text;

	for (uint32_t i = 0; i < N; i++) {
		many[i] = (struct profile_line){
			.function = "f", .filename = "/a/b.py", .mapping = "", .line = i + 1, .python = true
		};
		/* Recursion: the same line further out counts once. */
		stacks[i][0] = stacks[i][1] = i;
		stacks[i][2] = (i + 1) % N;
		each[i] = (struct profile_sample){ .lines = stacks[i], .n_lines = 3, .count = N - i, .comm = "" };
	}
	text = summarise(&p, NULL);
	assert_non_null(strstr(text, "calls\n 15.4 %  [ 9.0, 25.0]      16.7 %  f (b.py:1)\n"));
	assert_non_null(strstr(text, " %  f (b.py:10)\nand 2 more lines\n"));
	assert_null(strstr(text, "no Python frame"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_is_told_with_its_threads),
		cmocka_unit_test(python_from_a_file_alone),
		cmocka_unit_test(one_python_thread_needs_no_table),
		cmocka_unit_test(no_share_without_a_gil),
		cmocka_unit_test(just_in_time_code),
		cmocka_unit_test(five_threads_by_cpu_time),
		cmocka_unit_test(python_problems_in_words),
		cmocka_unit_test(hostile_python_comments),
		cmocka_unit_test(the_gil_alone),
		cmocka_unit_test(python_functions_with_their_native_code),
		cmocka_unit_test(ten_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
