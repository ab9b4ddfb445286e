/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a user is told who asks for a part of a profile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/selection.h"

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
}

static struct profile_sample samples[] = {
	{ .count = 5, .gil = PROFILE_GIL_HELD },
	{ .count = 7, .gil = PROFILE_GIL_RELEASED },
	{ .count = 11 },
	{ .count = 0, .gil = PROFILE_GIL_HELD },
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
	assert_int_equal(check(&gil, 2, 3, "stakeout.python.problem=CPython 3.7 is not supported", &err),
			 -ENODATA);
	assert_string_equal(err.text, "--gil shows nothing here: no sample is of a Python thread "
				      "(CPython 3.7 is not supported)");
	/* It slept all the time. */
	assert_int_equal(check(&gil, 2, 2, "stakeout.python.version=3.11", &err), 0);
	/* One of two interpreters could not be read: the samples may be its. */
	assert_int_equal(selection__check(&(struct profile){ .comments = both, .n_comments = 2 }, &gil, &err),
			 -ENODATA);
	assert_non_null(strstr(err.text, "(x)"));
	/* The others do not ask for it. */
	assert_int_equal(check(&python_only, 2, 3, NULL, &err), 0);
	assert_int_equal(check(&all, 2, 3, NULL, &err), 0);
}

static void what_is_left_out_is_said(void **state)
{
	struct profile_line lines[] = {
		{ .function = "main", .filename = "", .mapping = "/bin/x" },
		{ .function = "f", .filename = "f.py", .mapping = "", .python = true }
	};
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_folded_stacks_have_parts),
		cmocka_unit_test(the_gil_needs_a_python),
		cmocka_unit_test(what_is_left_out_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
