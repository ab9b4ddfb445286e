/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/summarise.h"
#include "tests/unit/training_profile.h"

static struct profile_line lines[] = {
	{ .function = "matmul", .filename = "", .mapping = "/usr/lib/libopenblas.so.0" },
	{ .function = "step", .filename = "/app/env.py", .mapping = "", .line = 1, .python = true },
	{ .function = "step", .filename = "/app/env.py", .mapping = "", .line = 2, .python = true },
	{ .function = "", .filename = "", .mapping = "/usr/lib/libc.so.6" },
	{ .function = "clear_page", .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true },
	{ .function = "[truncated:no-rules]", .filename = "", .mapping = "" },
};
static const uint32_t s_matmul[] = { 0, 1 }, s_step1[] = { 1 }, s_step2[] = { 2 }, s_libc[] = { 3, 5 },
		      s_kernel[] = { 4 };
static struct profile_sample samples[] = {
	{ .lines = s_matmul,
	  .n_lines = 2,
	  .count = 408,
	  .value_ns = 408ll * MS,
	  .pid = 7,
	  .tid = 7,
	  .comm = "a" },
	{ .lines = s_step1,
	  .n_lines = 1,
	  .count = 200,
	  .value_ns = 200ll * MS,
	  .pid = 7,
	  .tid = 8,
	  .comm = "a" },
	{ .lines = s_step2,
	  .n_lines = 1,
	  .count = 100,
	  .value_ns = 100ll * MS,
	  .pid = 7,
	  .tid = 9,
	  .comm = "a" },
	{ .lines = s_libc, .n_lines = 2, .count = 1, .value_ns = MS, .pid = 7, .tid = 10, .comm = "a" },
	{ .lines = s_kernel,
	  .n_lines = 1,
	  .count = 281,
	  .value_ns = 281ll * MS,
	  .pid = 7,
	  .tid = 10,
	  .comm = "a" },
};
static struct profile recording = {
	.lines = lines,
	.n_lines = 6,
	.samples = samples,
	.n_samples = 5,
	.duration_ns = 12000000000,
	.period_ns = MS,
};
/* A step of an environment, by its file; what no rule knows is another category. */
#define LARGEST                                                                \
	"largest: simulator step, 71.5 % [68.6, 74.2], 7.15 CPU s\n"           \
	"  how sure: within the interval in 95 of 100 cases, by 990 samples\n" \
	"  look at: step (env.py) 71.5 %\n"
#define LINES                                                                                      \
	"   line  [95 % interval]    total  function (file:line), with the native code it calls\n" \
	" 61.4 %  [58.3, 64.4]      61.4 %  step (env.py:1)\n"                                     \
	" 10.1 %  [ 8.4, 12.1]      10.1 %  step (env.py:2)\n"                                     \
	" 28.5 %  [25.8, 31.4]              no Python frame\n"
#define TABLE                                                            \
	"   self  [95 % interval]    total  function (file)\n"           \
	" 41.2 %  [38.2, 44.3]      41.2 %  matmul (libopenblas.so.0)\n" \
	" 30.3 %  [27.5, 33.2]      71.5 %  step (env.py)\n"             \
	" 28.4 %  [25.7, 31.3]      28.4 %  clear_page (kernel)\n"       \
	"  0.1 %  [ 0.0,  0.6]       0.1 %  [libc.so.6]\n" LINES

static void with_all_figures(void **state)
{
	assert_summary(&recording,
		       "{\"duration_s\": 10.0, \"sample_hz\": 99, \"samples\": 990, \"complete\": 989,"
		       " \"truncated\": {\"no-rules\": 1, \"depth\": 0}, \"lost\": {\"stack-ring-full\": 0},"
		       " \"bpf\": {\"programs\": {\"sample\": {\"run_count\": 1500, \"run_ns\": 2871000},"
		       " \"fork\": {\"run_count\": 0, \"run_ns\": 0}}},"
		       " \"daemon\": {\"cpu_s\": 0.02, \"rss_bytes\": 41000000}, \"overhead_percent\": 0.03}",
		       LARGEST
		       "990 samples in 10.0 s at 99 Hz (10.00 CPU s) of 1 process, 4 threads\n"
		       "complete 99.9 %   truncated 1: no-rules 1   lost 0\n"
		       "cost: 2.9 µs a sample, 0.03 % of the target's CPU time; daemon 0.2 % of a core, 41 "
		       "MB\n" TABLE);
}

static void what_is_missing_is_not_zero(void **state)
{
	static const char expected[] =
		LARGEST "990 samples in 12.0 s at 99 Hz (10.00 CPU s) of 1 process, 4 threads\n"
			"complete not measured   truncated not measured   lost not measured\n"
			"cost: time a sample not measured, share of the target's CPU time not "
			"measured; daemon not measured\n" TABLE;

	assert_summary(&recording, "{}", expected);
	assert_summary(
		&recording,
		"{\"duration_s\": null, \"sample_hz\": null, \"complete\": null, \"truncated\": null,"
		" \"lost\": null, \"bpf\": null, \"daemon\": {\"cpu_s\": null}, \"overhead_percent\": null}",
		expected);
	/* No run was seen. */
	assert_summary(&recording, "{\"bpf\": {\"programs\": {\"sample\": {\"run_count\": 0, \"run_ns\": 0}}}}",
		       expected);
	assert_summary(&recording, "[\"wrong\", \"types\"]", expected);
	assert_summary(&recording,
		       "{\"duration_s\": 10, \"daemon\": {\"cpu_s\": 0.5}, \"overhead_percent\": 0.001}",
		       LARGEST "990 samples in 10.0 s at 99 Hz (10.00 CPU s) of 1 process, 4 threads\n"
			       "complete not measured   truncated not measured   lost not measured\n"
			       "cost: time a sample not measured, < 0.01 % of the target's CPU time; "
			       "daemon 5.0 % of a core, memory not measured\n" TABLE);
}

/* stakeout's own profile says in its comments what was cut and lost; another tool's says nothing about it. */
static void from_a_file_alone(void **state)
{
	const char *comments[] = { "other",
				   "stakeout.complete=989",
				   "stakeout.truncated.no-rules=1",
				   "stakeout.lost.stack-ring-full=3",
				   "stakeout.lost.x\x1b=3",
				   "stakeout.lost.y=z",
				   "stakeout.lost.z=-4" };
	struct profile own = recording;

	own.comments = comments;
	own.n_comments = sizeof(comments) / sizeof(comments[0]);
	assert_summary(&own, NULL,
		       LARGEST "990 samples in 12.0 s at 99 Hz (10.00 CPU s) of 1 process, 4 threads\n"
			       "complete 99.9 %   truncated 1: no-rules 1   lost 3: stack-ring-full 3\n"
			       "cost: not measured\n" TABLE);
	comments[0] = "stakeout.lines-missing=7";
	assert_summary(&own, NULL,
		       LARGEST "990 samples in 12.0 s at 99 Hz (10.00 CPU s) of 1 process, 4 threads\n"
			       "source lines: 7 addresses of native code are without, for want of time to read "
			       "their debug information\n"
			       "complete 99.9 %   truncated 1: no-rules 1   lost 3: stack-ring-full 3\n"
			       "cost: not measured\n" TABLE);
	own.n_comments = 0;
	own.duration_ns = own.period_ns = 0;
	assert_summary(&own, NULL,
		       LARGEST
		       "990 samples in a time not measured at a rate not measured (10.00 CPU s) of 1 process, "
		       "4 threads\n"
		       "complete not measured   truncated not measured   lost not measured\n"
		       "cost: not measured\n" TABLE);
}

static void causes_are_listed_by_size(void **state)
{
	char *text = summarise(&recording,
			       "{\"complete\": 960, \"truncated\": {\"a\": 1, \"b\": 9, \"c\": 20, \"d\": 0},"
			       " \"lost\": {\"x\": 2, \"y\": 3, \"z\": \"?\"}}");

	assert_non_null(strstr(text, "\ncomplete 97.0 %   truncated 30: c 20, b 9, a 1   lost 5: y 3, x 2\n"));
	free(text);
}

/* 100.0 % is said only of all. */
static void rounding_hides_no_loss(void **state)
{
	char *text = summarise(&recording, "{\"complete\": 999999, \"truncated\": {\"depth\": 1}}");

	assert_non_null(strstr(text, "\ncomplete 99.9 % "));
	free(text);
	text = summarise(&recording, "{\"complete\": 990, \"truncated\": {\"depth\": 0}}");
	assert_non_null(strstr(text, "\ncomplete 100.0 %   truncated 0 "));
	free(text);
}

static void nothing_sampled(void **state)
{
	struct profile none = { .duration_ns = 10000000000, .period_ns = MS };

	assert_summary(
		&none, "{\"complete\": 0, \"truncated\": {}, \"lost\": {}, \"overhead_percent\": 0.0}",
		"0 samples in 10.0 s at 99 Hz\n"
		"complete not measured   truncated 0   lost 0\n"
		"cost: time a sample not measured, 0.00 % of the target's CPU time; daemon not measured\n"
		"The process was never seen running: it probably slept or waited (for I/O, a lock, the GPU) "
		"all the "
		"time.\n"
		"Sampling sees only threads that are on a CPU.\n");
	/* Not so when there were samples that were lost. */
	assert_summary(&none, "{\"lost\": {\"out-of-memory\": 4}}",
		       "0 samples in 10.0 s at 99 Hz\n"
		       "complete not measured   truncated not measured   lost 4: out-of-memory 4\n"
		       "cost: time a sample not measured, share of the target's CPU time not measured; "
		       "daemon not measured\n"
		       "All samples were lost; the causes are above.\n");
}

static void singular_and_samples_without_a_stack(void **state)
{
	struct profile_sample one = { .count = 1, .pid = 3, .tid = 3, .comm = "" };
	struct profile p = {
		.samples = &one, .n_samples = 1, .duration_ns = 1000000000, .period_ns = 666666667
	};

	assert_summary(&p, NULL,
		       "largest: no stack, 100.0 % [20.7, 100.0]\n"
		       "  how sure: within the interval in 95 of 100 cases, by 1 sample; that is few: look for "
		       "longer, or more often\n"
		       "  look at: [no stack] 100.0 %\n"
		       "1 sample in 1.0 s at 1.5 Hz of 1 process, 1 thread\n"
		       "complete not measured   truncated not measured   lost not measured\n"
		       "cost: not measured\n"
		       "   self  [95 % interval]    total  function (file)\n"
		       "100.0 %  [20.7, 100.0]    100.0 %  [no stack]\n");
}

static void ten_functions_and_long_names(void **state)
{
	enum { N = 13 };
	static char names[N][400];
	struct profile_line many[N];
	struct profile_sample each[N];
	uint32_t index[N];
	struct profile p = { .lines = many, .n_lines = N, .samples = each, .n_samples = N };
	char *text, *row;

	for (uint32_t i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "f%02u", i);
		/* Three bytes a character: columns are not bytes. */
		for (int j = 0; i == 0 && j < 120; j++)
			strcat(names[i], "\xe2\x82\xac");
		many[i] = (struct profile_line){ .function = names[i], .filename = "", .mapping = "" };
		index[i] = i;
		each[i] = (struct profile_sample){ .lines = &index[i], .n_lines = 1, .count = 1, .comm = "" };
	}
	each[0].count = 2;
	text = summarise(&p, NULL);
	assert_non_null(strstr(text, "\nand 3 more functions\n"));
	/* Equal counts by name. */
	assert_non_null(strstr(text, "f09\nand"));
	row = strstr(text, "total  function");
	assert_non_null(row);
	row = strstr(row, "f00");
	assert_non_null(row);
	/* 66 characters, an ellipsis, 33 characters. */
	assert_int_equal(strcspn(row, "\n"), 3 + 63 * 3 + 3 + 33 * 3);
	assert_memory_equal(row + 3 + 63 * 3, "…\xe2\x82\xac", 6);
	free(text);
}

/* Whoever reads nothing but the beginning knows that the loop spends its time in logging. */
static void the_first_line_names_the_largest_category(void **state)
{
	static const struct render_options all = { .gil = false };
	static const char begin[] = "largest: logging, 80.0 % [77.4, 82.4], 8.00 CPU s\n";
	char *text = summarise(&training, NULL);

	assert_memory_equal(text, begin, strlen(begin));
	/* The end of a recording has no room for all categories. */
	assert_null(strstr(text, "category ("));
	free(text);
	text = summarise_part(&training, NULL, &all);
	assert_memory_equal(text, begin, strlen(begin));
	assert_non_null(strstr(text, "  category (all shares are of the whole)\n 80.0 %  "));
	free(text);
}

static void threads_and_processes(void **state)
{
	static const struct render_options all = { .gil = false };
	struct profile_sample more[] = { samples[0], samples[1], samples[2], samples[3] };
	struct profile p = recording;
	char *text = summarise_part(&recording, NULL, &all);

	assert_non_null(strstr(text, "\n    CPU  [95 % interval]      CPU s  thread\n"
				     " 41.2 %  [38.2, 44.3]         4.12  a-7/7\n"
				     " 28.5 %  [25.8, 31.4]         2.85  a-7/10\n"
				     " 20.2 %  [17.8, 22.8]         2.02  a-7/8\n"
				     " 10.1 %  [ 8.4, 12.1]         1.01  a-7/9\n"));
	assert_null(strstr(text, "process\n"));
	free(text);
	/* A process is called like its main thread; without labels there is nothing to tell apart. */
	more[1].comm = "worker";
	more[2].pid = 8;
	more[3].pid = more[3].tid = 0;
	more[0].rank = "0";
	more[0].container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	more[2].container = "web";
	more[2].rank = "1\x1b;";
	p.samples = more;
	p.n_samples = 4;
	text = summarise_part(&p, NULL, &all);
	assert_non_null(strstr(text, "\n    CPU  [95 % interval]      CPU s  process\n"
				     " 85.8 %  [83.0, 88.1]         6.14  a-7  rank 0  container 0123456789ab\n"
				     " 14.1 %  [11.7, 16.9]         1.01  a-8  rank 1?:  container web\n"));
	assert_null(strstr(text, "thread, rank"));
	free(text);
	/* One process has no table. */
	p.n_samples = 2;
	text = summarise_part(&p, NULL, &all);
	assert_non_null(strstr(text, " of 1 process, 2 threads, rank 0, container 0123456789ab\n"));
	assert_null(strstr(text, "process\n"));
	free(text);
}

static void a_closed_file_is_an_error(void **state)
{
	struct so_error err = { "" };
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	assert_int_equal(render__summary(&recording, NULL, full, &err), -EIO);
	assert_true(*err.text);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_all_figures),
		cmocka_unit_test(what_is_missing_is_not_zero),
		cmocka_unit_test(from_a_file_alone),
		cmocka_unit_test(causes_are_listed_by_size),
		cmocka_unit_test(rounding_hides_no_loss),
		cmocka_unit_test(nothing_sampled),
		cmocka_unit_test(singular_and_samples_without_a_stack),
		cmocka_unit_test(ten_functions_and_long_names),
		cmocka_unit_test(the_first_line_names_the_largest_category),
		cmocka_unit_test(threads_and_processes),
		cmocka_unit_test(a_closed_file_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
