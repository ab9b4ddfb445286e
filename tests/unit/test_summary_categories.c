// SPDX-License-Identifier: GPL-2.0-or-later
/* To which category a sample belongs, and what is said of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/summary/summary_categories.h"
#include "client/summary/summary_own.h"
#include "tests/unit/training_profile.h"

struct world {
	struct render_options options;
	struct scope scope;
	struct names functions, lines;
	struct category_rules *rules;
	struct category_table *table;
};

static const struct summary_style whole = { .native_interpreter = true, .details = true, .top = 10 };

static void build(struct world *world, const struct profile *profile, const char *own)
{
	assert_int_equal(category_rules__new(own, own ? strlen(own) : 0, "own", &world->rules, NULL), 0);
	scope__init(profile, &world->options, &whole, &world->scope);
	assert_int_equal(names__functions(&world->scope, false, &world->functions), 0);
	assert_int_equal(names__lines(&world->scope, &world->lines), 0);
	assert_int_equal(summary_categories__new(&world->scope, world->rules, &world->functions, &world->lines,
						 &world->table),
			 0);
}

static void clear(struct world *world)
{
	summary_categories__free(world->table);
	names__clear(&world->functions);
	names__clear(&world->lines);
	category_rules__free(world->rules);
}

static int64_t samples_of(const struct category_table *table, const char *name)
{
	for (size_t i = 0; i < table->n; i++)
		if (!strcmp(table->rows[i].name, name))
			return table->rows[i].share.samples;
	return 0;
}

static void each_sample_belongs_to_one(void **state)
{
	struct world world = { 0 };
	int64_t sum = 0, means = 0;
	double ns = 0;

	build(&world, &training, NULL);
	assert_int_equal(samples_of(world.table, "logging"), 800);
	assert_int_equal(samples_of(world.table, "simulator step"), 40);
	assert_int_equal(samples_of(world.table, "observation encoding"), 20);
	assert_int_equal(samples_of(world.table, "garbage collection"), 20);
	assert_int_equal(samples_of(world.table, "linear algebra"), 30);
	assert_int_equal(samples_of(world.table, "memory copies"), 11);
	/* The frames under RestoreThread that held the lock were not waiting for it. */
	assert_int_equal(samples_of(world.table, "interpreter"), 9 + 7);
	assert_int_equal(samples_of(world.table, "GIL wait"), 8);
	assert_int_equal(samples_of(world.table, "locks"), 0);
	assert_int_equal(samples_of(world.table, "autograd"), 30);
	assert_int_equal(samples_of(world.table, "other Python"), 5);
	assert_int_equal(samples_of(world.table, "other native"), 12);
	assert_int_equal(samples_of(world.table, "kernel, other"), 6);
	assert_int_equal(samples_of(world.table, "no stack"), 2);
	for (size_t i = 0; i < world.table->n; i++) {
		const struct category_row *row = &world.table->rows[i];
		int64_t functions = 0, row_means = 0;

		assert_true(!i || row[-1].share.samples >= row->share.samples);
		sum += row->share.samples;
		ns += row->share.ns;
		for (size_t j = 0; j < row->functions.n; j++)
			functions += row->functions.list[j].share.samples;
		for (size_t j = 0; j < row->means.n; j++)
			row_means += row->means.list[j].share.samples;
		assert_int_equal(functions, row->share.samples);
		assert_int_equal(row_means, row->share.samples);
	}
	for (size_t i = 0; i < world.table->n_means; i++)
		means += world.table->means[i].share.samples;
	assert_int_equal(sum, 1000);
	assert_int_equal(means, 1000);
	assert_true(ns == 1e10);
	clear(&world);
}

static void assert_part(const struct parts *parts, size_t i, const char *text, int64_t samples)
{
	assert_true(i < parts->n);
	assert_int_equal(parts->list[i].length, strlen(text));
	assert_memory_equal(parts->list[i].text, text, strlen(text));
	assert_int_equal(parts->list[i].share.samples, samples);
}

static void what_is_said_of_an_activity(void **state)
{
	struct world world = { 0 };
	const struct category_row *row;

	build(&world, &training, NULL);
	row = &world.table->rows[0];
	assert_string_equal(row->name, "logging");
	assert_string_equal(row->kind, "activity");
	/* Python functions, whatever C code they end in. */
	assert_int_equal(row->functions.n, 3);
	assert_part(&row->functions, 0, "Formatter.format (logging/__init__.py)", 560);
	assert_part(&row->functions, 1, "StreamHandler.emit (logging/__init__.py)", 230);
	assert_part(&row->functions, 2, "Pretty.format (pretty.py)", 10);
	/* A formatter of the user's within logging is not who calls it; the simulator is. */
	assert_int_equal(row->callers.n, 2);
	assert_part(&row->callers, 0, "train_step (train.py:30)", 790);
	assert_part(&row->callers, 1, "PoleEnv.step (pole.py:12)", 10);
	assert_int_equal(row->means.n, 3);
	assert_part(&row->means, 0, "Python code", 510);
	assert_part(&row->means, 1, "memory allocation", 150);
	assert_part(&row->means, 2, "kernel I/O", 140);
	clear(&world);
}

static const struct category_row *row_of(const struct category_table *table, const char *name)
{
	for (size_t i = 0; i < table->n; i++)
		if (!strcmp(table->rows[i].name, name))
			return &table->rows[i];
	fail_msg("no category %s", name);
	return NULL;
}

static void what_is_said_of_the_others(void **state)
{
	struct world world = { 0 };
	const struct category_row *row;

	build(&world, &training, NULL);
	row = row_of(world.table, "linear algebra");
	assert_string_equal(row->kind, "mechanism");
	assert_part(&row->functions, 0, "sgemm_kernel (libopenblas.so.0)", 30);
	assert_part(&row->callers, 0, "train_step (train.py:30)", 30);
	/* A thread without Python. */
	row = row_of(world.table, "autograd");
	assert_part(&row->functions, 0, "sgemm_kernel (libopenblas.so.0)", 30);
	assert_int_equal(row->callers.n, 0);
	assert_part(&row->means, 0, "linear algebra", 30);
	row = row_of(world.table, "no stack");
	assert_string_equal(row->kind, "leftover");
	assert_part(&row->functions, 0, "[no stack]", 2);
	row = row_of(world.table, "garbage collection");
	assert_part(&row->functions, 0, "dict_traverse (python3.11)", 20);
	assert_part(&row->callers, 0, "train_step (train.py:30)", 20);
	clear(&world);
}

static char *text_of(const struct world *world, bool all)
{
	struct rows own = { .n = 0 };
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	if (all)
		summary_categories__print(world->table, &world->scope, out);
	if (all)
		summary_categories__print_means(world->table, &world->scope, out);
	else
		assert_int_equal(rows__of_own_lines(&world->scope, &own), 0);
	if (!all)
		assert_int_equal(summary_own__print_verdict(&own, world->table, &world->functions, &world->scope, out),
				 0);
	rows__clear(&own);
	fclose(out);
	return text;
}

static void the_largest_in_words(void **state)
{
	struct world world = { 0 };
	char *text;

	build(&world, &training, NULL);
	text = text_of(&world, false);
	assert_string_equal(text, "largest: logging, 80.0 % [77.4, 82.4], 8.00 CPU s\n"
				  "  how sure: within the interval in 95 of 100 cases, by 1000 samples\n"
				  "  look at: train_step (train.py:30) 79.0 %, which calls Formatter.format "
				  "(logging/__init__.py) 56.0 %, StreamHandler.emit (logging/__init__.py) 23.0 %, "
				  "Pretty.format (pretty.py) 1.0 %\n");
	free(text);
	clear(&world);
}

static void all_in_words(void **state)
{
	static const char begin[] =
		"  share  [95 % interval]      CPU s  category (all shares are of the whole)\n"
		" 80.0 %  [77.4, 82.4]         8.00  logging\n"
		"                                        functions: Formatter.format (logging/__init__.py) 56.0 %, ";
	struct world world = { 0 };
	char *text;

	build(&world, &training, NULL);
	text = text_of(&world, true);
	assert_memory_equal(text, begin, strlen(begin));
	assert_non_null(strstr(text, "\n                                        by: Python code 51.0 %, memory "
				     "allocation 15.0 %, kernel I/O 14.0 %\n"
				     "  4.0 %  [ 3.0,  5.4]         0.40  simulator step\n"));
	assert_non_null(strstr(text, "\n  share  [95 % interval]      CPU s  by what means, in all categories "
				     "together\n"
				     " 55.5 %  [52.4, 58.6]         5.55  Python code\n"
				     " 17.0 %  [14.8, 19.5]         1.70  memory allocation\n"));
	free(text);
	clear(&world);
}

/* Of a profile that knows no CPU time, seconds are not told. */
static void without_time(void **state)
{
	struct profile_sample sample = training_samples[0];
	const struct profile one = {
		.lines = training_lines, .n_lines = N_LINES, .samples = &sample, .n_samples = 1
	};
	struct world world = { 0 };
	char *text;

	sample.value_ns = 0;
	build(&world, &one, NULL);
	text = text_of(&world, false);
	assert_memory_equal(text, "largest: logging, 100.0 % [99.0, 100.0]\n",
			    strlen("largest: logging, 100.0 % [99.0, 100.0]\n"));
	free(text);
	text = text_of(&world, true);
	assert_non_null(strstr(text, "\n100.0 %  [99.0, 100.0]           -  logging\n"));
	free(text);
	clear(&world);
}

static void rules_of_the_user(void **state)
{
	struct world world = { 0 };

	/* A mechanism does not look above the innermost Python frame; the order of mechanisms is the file's. */
	build(&world, &training,
	      "[mine]\nfile = /pretty[.]py$\n[vector]\nkind = mechanism\nframe = Vectorcall\n"
	      "[far]\nkind = mechanism\nframe = ^(main|start_thread)$\n");
	assert_int_equal(samples_of(world.table, "mine"), 10);
	assert_int_equal(samples_of(world.table, "logging"), 790);
	assert_int_equal(samples_of(world.table, "vector"), 20);
	assert_int_equal(samples_of(world.table, "memory copies"), 0);
	assert_int_equal(samples_of(world.table, "far"), 12 + 6);
	assert_int_equal(samples_of(world.table, "other Python"), 5);
	clear(&world);
}

static void only_what_held_the_gil(void **state)
{
	struct world world = { .options = { .gil = true } };

	build(&world, &training, NULL);
	assert_int_equal(samples_of(world.table, "logging"), 660);
	assert_int_equal(samples_of(world.table, "autograd"), 0);
	assert_int_equal(samples_of(world.table, "GIL wait"), 0);
	assert_int_equal(world.scope.total.samples, 1000 - 140 - 8 - 30 - 12 - 6 - 2);
	clear(&world);
}

static void nothing_at_all(void **state)
{
	const struct profile none = { .n_samples = 0 };
	struct world world = { 0 };
	char *text;

	build(&world, &none, NULL);
	assert_int_equal(world.table->n, 0);
	text = text_of(&world, false);
	assert_string_equal(text, "");
	free(text);
	clear(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sample_belongs_to_one),
		cmocka_unit_test(what_is_said_of_an_activity),
		cmocka_unit_test(what_is_said_of_the_others),
		cmocka_unit_test(the_largest_in_words),
		cmocka_unit_test(all_in_words),
		cmocka_unit_test(without_time),
		cmocka_unit_test(rules_of_the_user),
		cmocka_unit_test(only_what_held_the_gil),
		cmocka_unit_test(nothing_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
