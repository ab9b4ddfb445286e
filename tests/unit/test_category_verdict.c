// SPDX-License-Identifier: GPL-2.0-or-later
/* To which category samples belong, and that what was asked once is not asked again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/category_verdict.h"
#include "tests/unit/training_profile.h"

static struct category_rules *rules_of(const char *own)
{
	struct category_rules *rules = NULL;
	struct so_error err = { "" };

	if (category_rules__new(own, own ? strlen(own) : 0, "own", &rules, &err))
		fail_msg("%s", err.text);
	return rules;
}

static int64_t samples_of(const struct category_lines *lines, const char *name)
{
	int64_t n = 0;

	for (size_t i = 0; i < lines->profile->n_samples; i++) {
		struct category_verdict verdict = category_lines__judge(lines, &lines->profile->samples[i]);

		if (!strcmp(category_verdict__name(lines->rules, verdict.category), name))
			n += lines->profile->samples[i].count;
	}
	return n;
}

static void samples_belong(void **state)
{
	_cleanup_(category_rules) struct category_rules *rules = rules_of(NULL);
	_cleanup_(category_lines) struct category_lines *lines = &(struct category_lines){ 0 };
	struct category_verdict verdict;

	assert_int_equal(category_lines__match(rules, &training, NULL, lines), 0);
	assert_int_equal(samples_of(lines, "logging"), 800);
	assert_int_equal(samples_of(lines, "simulator step"), 40);
	assert_int_equal(samples_of(lines, "GIL wait"), 8);
	assert_int_equal(samples_of(lines, "other Python"), 5);
	assert_int_equal(samples_of(lines, "other native"), 12);
	assert_int_equal(samples_of(lines, "kernel, other"), 6);
	assert_int_equal(samples_of(lines, "no stack"), 2);
	/* An allocation within a formatter: what for, and by what means. */
	verdict = category_lines__judge(lines, &training.samples[1]);
	assert_string_equal(category_verdict__name(rules, verdict.category), "logging");
	assert_string_equal(category_verdict__name(rules, verdict.means), "memory allocation");
	assert_int_equal(verdict.frame, 1);
}

static void what_is_remembered_is_the_same(void **state)
{
	_cleanup_(category_rules) struct category_rules *rules = rules_of(NULL);
	_cleanup_(category_memory) struct category_memory *memory = &(struct category_memory){ 0 };
	uint64_t asked = 0;

	for (int round = 0; round < 3; round++) {
		_cleanup_(category_lines) struct category_lines *plain = &(struct category_lines){ 0 };
		_cleanup_(category_lines) struct category_lines *recalled = &(struct category_lines){ 0 };

		assert_int_equal(category_lines__match(rules, &training, NULL, plain), 0);
		assert_int_equal(category_lines__match(rules, &training, memory, recalled), 0);
		for (size_t i = 0; i < training.n_lines; i++)
			assert_memory_equal(&plain->ranks[plain->ranks_of_line[i]],
					    &recalled->ranks[recalled->ranks_of_line[i]],
					    sizeof(struct category_ranks));
		asked = round ? asked : memory->asked;
		assert_int_equal(memory->asked, asked);
	}
	assert_int_equal(asked, N_LINES);
}

/* Each by itself, in strings of its own: what tells functions apart is what their names are, and where they lie. */
static struct category_ranks ask(const struct category_rules *rules, struct category_memory *memory,
				 const struct profile_line *line)
{
	_cleanup_(category_lines) struct category_lines *lines = &(struct category_lines){ 0 };
	_cleanup_free_ char *function = strdup(line->function);
	struct profile_line copy = *line;
	const struct profile profile = { .lines = &copy, .n_lines = 1 };

	copy.function = function;
	assert_int_equal(category_lines__match(rules, &profile, memory, lines), 0);
	return lines->ranks[0];
}

static void names_are_told_apart(void **state)
{
	static const struct profile_line lines[] = {
		{ .function = "f", .filename = "", .mapping = "" },
		{ .function = "", .filename = "f", .mapping = "" },
		{ .function = "", .filename = "", .mapping = "f" },
		{ .function = "f", .filename = "", .mapping = "", .kernel = true },
		{ .function = "f", .filename = "f", .mapping = "" },
	};
	_cleanup_(category_rules) struct category_rules *rules =
		rules_of("[a]\nfile = ^f$\n[b]\nlibrary = ^f$\nframe = ^f$\n");
	_cleanup_(category_memory) struct category_memory *memory = &(struct category_memory){ 0 };

	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
			struct category_ranks fresh = ask(rules, NULL, &lines[i]);
			struct category_ranks known = ask(rules, memory, &lines[i]);

			assert_memory_equal(&fresh, &known, sizeof(fresh));
		}
	assert_int_equal(memory->asked, sizeof(lines) / sizeof(lines[0]));
}

static void memory_is_bounded(void **state)
{
	_cleanup_(category_rules) struct category_rules *rules = rules_of(NULL);
	_cleanup_(category_memory) struct category_memory *memory = &(struct category_memory){ 0 };
	char *name = malloc(CATEGORY_MEMORY_MAX_BYTES / 64);
	struct profile_line line = { .function = name, .filename = "", .mapping = "", .kernel = true };

	/* Of a name that is longer than what rules look at, no more is kept. */
	assert_non_null(name);
	memset(name, 'x', CATEGORY_MEMORY_MAX_BYTES / 64);
	name[CATEGORY_MEMORY_MAX_BYTES / 64 - 1] = '\0';
	ask(rules, memory, &line);
	assert_true(memory->functions.bytes_used < 8192);
	/* By bytes, which come first here. */
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, 16, "%08u", i);
		name[8] = 'x';
		ask(rules, memory, &line);
		assert_true(memory->functions.bytes_used <= CATEGORY_MEMORY_MAX_BYTES);
	}
	assert_true(memory->functions.n_keys < 5000);
	/* By number. */
	for (unsigned i = 0; i < CATEGORY_MEMORY_MAX_FUNCTIONS + 5000; i++) {
		snprintf(name, 16, "%u", i);
		ask(rules, memory, &line);
		assert_true(memory->functions.n_keys <= CATEGORY_MEMORY_MAX_FUNCTIONS);
	}
	assert_true(memory->functions.n_keys < CATEGORY_MEMORY_MAX_FUNCTIONS);
	strcpy(name, "do_futex");
	assert_true(ask(rules, memory, &line).mechanism[0] != CATEGORY_NO_RANK);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_belong),
		cmocka_unit_test(what_is_remembered_is_the_same),
		cmocka_unit_test(names_are_told_apart),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
