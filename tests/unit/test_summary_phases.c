// SPDX-License-Identifier: GPL-2.0-or-later
/* Phases of the user's: what they contain, and what is said where nothing matches. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/summary/summary_phases.h"
#include "tests/unit/training_profile.h"

static const struct render_options all;

struct world {
	struct scope scope;
	struct names functions;
};

static const struct summary_style style = { .native_interpreter = true, .top = 10 };

static void build(struct world *world, const struct profile *profile, const struct render_options *options)
{
	scope__init(profile, options, &style, &world->scope);
	assert_int_equal(names__functions(&world->scope, false, &world->functions), 0);
}

static struct phases *phases_of(const char *word)
{
	struct phases *phases = NULL;
	struct so_error err = { "" };

	if (phases__new(&word, 1, &phases, &err))
		fail_msg("%s", err.text);
	return phases;
}

static struct phase_result measure(const struct world *world, const char *word)
{
	struct phases *phases = phases_of(word);
	struct phase_result result;

	assert_int_equal(phases__measure(phases, 0, &world->scope, &world->functions, &result), 0);
	phases__free(phases);
	return result;
}

static void assert_name(const struct world *world, uint32_t name, const char *text)
{
	assert_int_equal(intern__length(&world->functions.texts, name), strlen(text));
	assert_memory_equal(intern__key(&world->functions.texts, name), text, strlen(text));
}

static void the_time_under_a_function(void **state)
{
	struct world world = { 0 };
	struct phase_result phase;

	build(&world, &training, &all);
	/* All that it calls, logging too. */
	phase = measure(&world, "env=^PoleEnv[.]step$");
	assert_int_equal(phase.share.samples, 70);
	assert_true(phase.share.ns == 7e8);
	assert_int_equal(phase.n_matched, 1);
	assert_name(&world, phase.functions[0].name, "PoleEnv.step (pole.py)");
	/* Recursion and several matches on a stack: once a sample, under the outermost. */
	phase = measure(&world, "any=[Ff]ormat");
	assert_int_equal(phase.share.samples, 400 + 150 + 10 + 90 + 10 + 20);
	assert_int_equal(phase.n_matched, 1);
	assert_name(&world, phase.functions[0].name, "Formatter.format (logging/__init__.py)");
	/* By the file, also of native code; and the kernel's functions. */
	assert_int_equal(measure(&world, "f= [(]/app/pole[.]py[)]$").share.samples, 70);
	assert_int_equal(measure(&world, "f= [(].*libopenblas").share.samples, 60);
	assert_int_equal(measure(&world, "k=^vfs_").share.samples, 140);
	assert_int_equal(measure(&world, "all=.").share.samples, 998);
	assert_int_equal(measure(&world, "a=b==c").share.samples, 0);
	names__clear(&world.functions);
}

static void only_what_held_the_gil(void **state)
{
	const struct render_options gil = { .gil = true };
	struct world world = { 0 };

	build(&world, &training, &gil);
	assert_int_equal(measure(&world, "log=Logger").share.samples, 660 + 20);
	names__clear(&world.functions);
}

static char *text_of(const struct world *world, const char *word)
{
	struct phases *phases = phases_of(word);
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(phases__print(phases, &world->scope, &world->functions, out), 0);
	fclose(out);
	phases__free(phases);
	return text;
}

#define HEAD   "  total  [95 % interval]      CPU s  phase=pattern: all that these functions call\n"
#define INDENT "                                        "

static void assert_text(const struct world *world, const char *word, const char *expected)
{
	char *text = text_of(world, word);

	assert_string_equal(text, expected);
	free(text);
}

static void in_words(void **state)
{
	struct world world = { 0 };

	build(&world, &training, &all);
	assert_text(&world, "env step=PoleEnv.step",
		    HEAD "  7.0 %  [ 5.6,  8.8]         0.70  env step=PoleEnv.step\n" INDENT
			 "under PoleEnv.step (pole.py)\n");
	assert_text(&world, "x=^(sgemm_kernel|do_futex)$",
		    HEAD "  6.8 %  [ 5.4,  8.5]         0.68  x=^(sgemm_kernel|do_futex)$\n" INDENT
			 "under sgemm_kernel (libopenblas.so.0) 6.0 %, do_futex (kernel) 0.8 %\n");
	/* A slip is told with what may have been meant. */
	assert_text(&world, "env=PolEnv.stpe",
		    HEAD "  0.0 %  [ 0.0,  0.4]         0.00  env=PolEnv.stpe\n" INDENT
			 "no function matches; similar: PoleEnv.step (pole.py), PoleEnv._get_obs (pole.py)\n");
	assert_text(&world, "get obs=get_observation",
		    HEAD "  0.0 %  [ 0.0,  0.4]         0.00  get obs=get_observation\n" INDENT
			 "no function matches; similar: PoleEnv._get_obs (pole.py)\n");
	assert_text(&world, "x=qqqq",
		    HEAD "  0.0 %  [ 0.0,  0.4]         0.00  x=qqqq\n" INDENT "no function matches\n");
	/* What a pattern contains does not reach the terminal. */
	assert_text(&world, "x=q\x1b[2]q",
		    HEAD "  0.0 %  [ 0.0,  0.4]         0.00  x=q?[2]q\n" INDENT "no function matches\n");
	names__clear(&world.functions);
}

static void wrong_words(void **state)
{
	static const struct {
		const char *word, *error;
	} cases[] = {
		{ "env", "--phase 'env': not of the form NAME=PATTERN" },
		{ "=x", "--phase '=x': not of the form" },
		{ "env=", "--phase 'env=': not of the form" },
		{ "env=(", "--phase env: not a regular expression: " },
		{ "env=(x)\\1", "--phase env: not a regular expression: invalid escape" },
		{ "e\x1bv=x", "--phase 'e\x1bv=x': a name is UTF-8" },
		{ "0123456789012345678901234567890123456789012345678901234567890=x", "--phase '0123" },
	};
	const char *twice[] = { "a=x", "b=x", "a=y" }, *many[PHASES_MAX + 1];
	struct phases *phases = NULL;
	struct so_error err = { "" };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(phases__new(&cases[i].word, 1, &phases, &err), -EINVAL);
		if (strncmp(err.text, cases[i].error, strlen(cases[i].error)))
			fail_msg("\"%s\" should begin with \"%s\"", err.text, cases[i].error);
	}
	assert_int_equal(phases__new(twice, 3, &phases, &err), -EINVAL);
	assert_string_equal(err.text, "--phase a is given twice");
	assert_int_equal(phases__new(twice, 2, &phases, &err), 0);
	assert_int_equal(phases__count(phases), 2);
	phases__free(phases);
	phases = NULL;
	for (size_t i = 0; i <= PHASES_MAX; i++)
		many[i] = "a=x";
	assert_int_equal(phases__new(many, PHASES_MAX + 1, &phases, &err), -EINVAL);
	assert_null(phases);
	assert_int_equal(phases__count(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_time_under_a_function),
		cmocka_unit_test(only_what_held_the_gil),
		cmocka_unit_test(in_words),
		cmocka_unit_test(wrong_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
