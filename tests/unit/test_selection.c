/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a user is told who asks for a part of a profile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/render/selection.h"

static const struct render_options all, gil = { .gil = true }, functions = { .functions = true },
					python_only = { .python_only = true };

static void only_folded_stacks_have_parts(void **state)
{
	struct so_error err = { "" };

	assert_int_equal(selection__refuse_for_pprof(&all, &err), 0);
	assert_int_equal(selection__refuse_for_pprof(&(struct render_options){ .threads = true }, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(selection__refuse_for_pprof(&gil, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--gil"));
	assert_int_equal(selection__refuse_for_pprof(&functions, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--functions"));
	assert_int_equal(selection__refuse_for_pprof(&python_only, &err), -EINVAL);
	assert_non_null(strstr(err.text, "--python-only"));
	assert_int_equal(selection__refuse_for_pprof(&(struct render_options){ .only = { { "pid=1" }, 1 } }, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, "--only"));
}

static struct profile_sample samples[] = {
	{ .count = 5, .gil = PROFILE_GIL_HELD }, { .count = 7, .gil = PROFILE_GIL_RELEASED }, { .count = 11 },
	{ .count = 0, .gil = PROFILE_GIL_HELD }, { .count = 3, .gil = PROFILE_GIL_DISABLED },
};

/* Samples [first, end), with one comment or none. */
static int check(const struct render_options *options, size_t first, size_t end, const char *comment,
		 struct so_error *err)
{
	const struct profile p = { .samples = &samples[first],
				   .n_samples = end - first,
				   .comments = &comment,
				   .n_comments = comment ? 1 : 0 };

	*err->text = '\0';
	return selection__check(&p, options, err);
}

static void the_gil_needs_a_python(void **state)
{
	const char *both[] = { "stakeout.python.version=3.11", "stakeout.python.problem=x" };
	struct so_error err;

	assert_int_equal(check(&gil, 0, 3, NULL, &err), 0);
	assert_int_equal(check(&gil, 1, 2, NULL, &err), 0);
	assert_int_equal(check(&gil, 2, 4, NULL, &err), -ENODATA);
	assert_string_equal(err.text, "--gil shows nothing here: no sample is of a Python thread");
	assert_int_equal(check(&gil, 2, 2, NULL, &err), -ENODATA);
	assert_int_equal(check(&gil, 2, 3, "stakeout.python.problem=CPython 3.7 is not supported", &err), -ENODATA);
	assert_string_equal(err.text, "--gil shows nothing here: no sample is of a Python thread "
				      "(CPython 3.7 is not supported)");
	/* It slept all the time. */
	assert_int_equal(check(&gil, 2, 2, "stakeout.python.version=3.11", &err), 0);
	/* One of two interpreters could not be read: the samples may be its. */
	assert_int_equal(selection__check(&(struct profile){ .comments = both, .n_comments = 2 }, &gil, &err),
			 -ENODATA);
	assert_non_null(strstr(err.text, "(x)"));
	/* There is none. */
	assert_int_equal(check(&gil, 4, 5, "stakeout.python.version=3.13t", &err), -ENODATA);
	assert_non_null(strstr(err.text, "this Python is free-threaded"));
	assert_int_equal(check(&gil, 0, 5, "stakeout.python.version=3.13t", &err), 0);
	/* The others do not ask for it. */
	assert_int_equal(check(&python_only, 2, 3, NULL, &err), 0);
	assert_int_equal(check(&all, 2, 3, NULL, &err), 0);
}

static void what_is_left_out_is_said(void **state)
{
	struct profile_line lines[] = { { .function = "main", .filename = "", .mapping = "/bin/x" },
					{ .function = "f", .filename = "f.py", .mapping = "", .python = true } };
	struct profile p = { .lines = lines, .n_lines = 2, .samples = samples, .n_samples = 4 };
	char text[160] = "untouched";

	assert_false(selection__note(&p, &all, text, sizeof(text)));
	assert_false(selection__note(&p, &functions, text, sizeof(text)));
	assert_false(selection__note(&p, &python_only, text, sizeof(text)));
	assert_string_equal(text, "untouched");
	assert_true(selection__note(&p, &gil, text, sizeof(text)));
	assert_string_equal(text, "18 of 23 samples left out: their threads did not hold the GIL");
	p.n_lines = 1;
	assert_true(selection__note(&p, &python_only, text, sizeof(text)));
	assert_string_equal(text, "no Python frames here: each stack reads [native]");
	p.n_samples = 0;
	assert_false(selection__note(&p, &python_only, text, sizeof(text)));
}

#define ONLY(...)                                                                                     \
	(struct render_options)                                                                       \
	{                                                                                             \
		.only = { { __VA_ARGS__ }, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *) } \
	}

static void words_of_only(void **state)
{
	static const char *const good[] = { "pid=1", "tid=007", "comm=a=b", "comm= ", "rank=0", "container=ab" };
	static const char *const bad[] = { "",       "pid",    "pid=",   "=1",      "pids=1",    "PID=1",
					   "pid=1a", "tid=-1", "rank=x", "rank= 1", "container=" };
	struct so_error err = { "" };

	assert_int_equal(only__check(&all.only, &err), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(only__check(&ONLY(good[i]).only, &err), 0);
	assert_string_equal(err.text, "");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		*err.text = '\0';
		assert_int_equal(only__check(&ONLY("pid=1", bad[i]).only, &err), -EINVAL);
		assert_non_null(strstr(err.text, "--only"));
	}
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct profile_sample labelled[] = {
	{ .count = 1, .pid = 10, .tid = 10, .comm = "mpirun" },
	{ .count = 2, .pid = 11, .tid = 11, .comm = "python3", .rank = "0", .container = ID },
	{ .count = 4, .pid = 11, .tid = 12, .comm = "worker", .rank = "0", .container = ID, .gil = PROFILE_GIL_HELD },
	{ .count = 8, .pid = 13, .tid = 13, .comm = "python3", .rank = "1", .container = "" },
	{ .count = 0, .pid = 14, .tid = 14, .comm = "none", .rank = "2" },
};

static const struct profile of_labelled = { .samples = labelled, .n_samples = 5 };

static int64_t taken(const struct render_options *options)
{
	int64_t sum = 0;

	for (size_t i = 0; i < of_labelled.n_samples; i++)
		sum += selection__takes(options, &labelled[i]) ? labelled[i].count : 0;
	return sum;
}

static void only_those_asked_for(void **state)
{
	struct render_options both = ONLY("rank=0");

	assert_int_equal(taken(&all), 15);
	assert_int_equal(taken(&ONLY("pid=11")), 6);
	assert_int_equal(taken(&ONLY("pid=0011")), 6);
	assert_int_equal(taken(&ONLY("pid=1")), 0);
	assert_int_equal(taken(&ONLY("pid=11", "pid=13")), 14);
	assert_int_equal(taken(&ONLY("tid=12")), 4);
	assert_int_equal(taken(&ONLY("comm=python3")), 10);
	assert_int_equal(taken(&ONLY("comm=python")), 0);
	assert_int_equal(taken(&ONLY("rank=0")), 6);
	assert_int_equal(taken(&ONLY("rank=00")), 6);
	assert_int_equal(taken(&ONLY("rank=2")), 0);
	assert_int_equal(taken(&ONLY("container=0123456789ab")), 6);
	assert_int_equal(taken(&ONLY("container=123")), 0);
	assert_int_equal(taken(&ONLY("rank=0", "comm=python3")), 2);
	assert_int_equal(taken(&ONLY("rank=0", "comm=python3", "rank=1")), 10);
	assert_int_equal(taken(&ONLY("rank=1", "tid=12")), 0);
	both.gil = true;
	assert_int_equal(taken(&both), 4);
}

#define REFUSED(text_, ...)                                                                               \
	do {                                                                                              \
		struct so_error refusal = { "" };                                                         \
		assert_int_equal(selection__check(&of_labelled, &ONLY(__VA_ARGS__), &refusal), -ENODATA); \
		assert_string_equal(refusal.text, text_);                                                 \
	} while (0)

static void what_there_is_is_said(void **state)
{
	const struct profile plain = { .samples = labelled, .n_samples = 1 }, none = { .n_samples = 0 };
	struct profile_sample many[20] = { { .count = 0 } };
	struct so_error err = { "" };
	char text[160];

	assert_int_equal(selection__check(&of_labelled, &ONLY("rank=0"), &err), 0);
	/* Nothing was sampled at all. */
	assert_int_equal(selection__check(&none, &ONLY("rank=0"), &err), 0);
	assert_string_equal(err.text, "");
	REFUSED("--only rank=7: no sample here has it; there are 0, 1", "rank=0", "rank=7", "pid=10");
	REFUSED("--only pid=1: no sample here has it; there are 10, 11, 13", "pid=1");
	REFUSED("--only comm=perl: no sample here has it; there are mpirun, python3, worker", "comm=perl");
	REFUSED("--only container=f: no sample here has it; there are 0123456789ab", "container=f");
	REFUSED("no sample here has all that --only asks for", "rank=1", "tid=12");
	assert_int_equal(selection__check(&plain, &ONLY("rank=0"), &err), -ENODATA);
	assert_string_equal(err.text, "--only rank=0: no sample here has a rank");
	for (size_t i = 0; i < 20; i++)
		many[i] = (struct profile_sample){ .count = 1, .tid = (int64_t)i + 1, .comm = "" };
	assert_int_equal(selection__check(&(struct profile){ .samples = many, .n_samples = 20 }, &ONLY("tid=99"), &err),
			 -ENODATA);
	assert_string_equal(err.text, "--only tid=99: no sample here has it; there are 1, 2, 3, 4, 5, 6, 7, 8, ...");
	assert_true(selection__note(&of_labelled, &ONLY("rank=1"), text, sizeof(text)));
	assert_string_equal(text, "46.7 % of all was left out: not of --only");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_folded_stacks_have_parts), cmocka_unit_test(the_gil_needs_a_python),
		cmocka_unit_test(what_is_left_out_is_said),      cmocka_unit_test(words_of_only),
		cmocka_unit_test(only_those_asked_for),          cmocka_unit_test(what_there_is_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
