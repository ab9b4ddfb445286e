// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A baseline's file: what is written is what is read, it is as small as promised, and what it must not be compared
 * with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/diff/baseline.h"

#define BLOCKS 6

/* Two functions and a line, in six stretches of a second, with ten steps in each. */
static struct side *make_side(unsigned functions)
{
	struct side *s = calloc(1, sizeof(*s));
	char name[64];
	uint32_t row;

	s->n_blocks = BLOCKS;
	s->blocks = calloc(BLOCKS, sizeof(*s->blocks));
	s->n_runs = 1;
	s->processes = 1;
	s->rate_hz = 99;
	s->runnable = -1;
	s->program = strdup("python3");
	s->event = strdup("");
	s->value = strdup("");
	for (unsigned i = 0; i < BLOCKS; i++)
		s->blocks[i] = (struct side_block){ .wall_ns = 1e9, .amount = 9e8, .steps = 10, .step_ns = 1e9 };
	for (unsigned i = 0; i < functions; i++) {
		snprintf(name, sizeof(name), "function_with_a_long_name_%06u (train.py)", i);
		assert_int_equal(side__row(s, ROW_FUNCTION, name, strlen(name), 0, &row), 0);
		for (unsigned k = 0; k < BLOCKS; k++)
			side__cells(s, row)[k] = 9e8 / (1 << (i < 20 ? i + 1 : 20));
		s->rows[row].squares = 1e15;
		s->rows[row].observations = 100;
	}
	assert_int_equal(side__row(s, ROW_LINE, "step (train.py)", 15, 28, &row), 0);
	side__cells(s, row)[3] = 5e8;
	s->rows[row].observations = 50;
	s->all.squares = 1e16;
	s->all.observations = 535;
	assert_int_equal(side__settle(s), 0);
	return s;
}

static struct baseline make_baseline(unsigned functions, const char *command)
{
	struct baseline b = { .side = make_side(functions), .unit = COMPARE_STEP, .categories = strdup("") };

	assert_int_equal(baseline_facts__here(command, &b.facts), 0);
	return b;
}

static char *write_baseline(const struct baseline *b, size_t *length)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, length);

	assert_int_equal(baseline__write(b, out), 0);
	fclose(out);
	return text;
}

static void what_is_written_is_read(void **state)
{
	_cleanup_(baseline) struct baseline b = make_baseline(2, "train.py --steps 100"), again = { .side = NULL };
	struct so_error err = { .text = "" };
	size_t length;
	_cleanup_free_ char *text = write_baseline(&b, &length);

	if (baseline__parse("a file", text, length, &again, &err))
		fail_msg("%s", err.text);
	assert_int_equal(again.unit, COMPARE_STEP);
	assert_string_equal(again.facts.command, "train.py --steps 100");
	assert_string_equal(again.facts.cpu, b.facts.cpu);
	assert_string_equal(again.side->program, "python3");
	assert_int_equal(again.side->n_blocks, BLOCKS);
	assert_int_equal(again.side->n, 3);
	assert_true(again.side->steps == 60 && again.side->rate_hz == 99 && again.side->left_out == 0);
	for (size_t i = 0; i < 3; i++) {
		const struct side_row *x = &b.side->rows[i], *y = NULL;

		for (size_t k = 0; k < 3; k++)
			if (again.side->rows[k].kind == x->kind && !strcmp(again.side->rows[k].text, x->text))
				y = &again.side->rows[k];
		assert_non_null(y);
		assert_int_equal(y->line, x->line);
		assert_true(y->observations == x->observations);
		/* In microseconds, which is what a baseline keeps. */
		assert_true(y->amount > x->amount - 1e3 * BLOCKS && y->amount < x->amount + 1e3 * BLOCKS);
	}
	assert_int_equal(baseline__check(&again, b.side, &b.facts, &err), 0);
}

/* Of what does not fit the smallest rows are left out, and that is said. */
static void it_is_small(void **state)
{
	_cleanup_(baseline) struct baseline b = make_baseline(5000, ""), again = { .side = NULL };
	struct so_error err = { .text = "" };
	size_t length;
	_cleanup_free_ char *text = write_baseline(&b, &length);

	assert_true(length <= BASELINE_BYTES && length > BASELINE_BYTES / 2);
	if (baseline__parse("a file", text, length, &again, &err))
		fail_msg("%s", err.text);
	assert_true(again.side->n > 100 && again.side->n < 5001);
	assert_true(again.side->left_out > 0 && again.side->left_out < 1e-3);
}

static void assert_refused(const struct baseline *b, const struct side *now, const struct baseline_facts *here,
			   const char *why)
{
	struct so_error err = { .text = "" };

	assert_int_equal(baseline__check(b, now, here, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static void what_cannot_be_compared(void **state)
{
	_cleanup_(baseline) struct baseline b = make_baseline(2, "train.py"), other = make_baseline(2, "train.py");
	struct baseline_facts here = b.facts;

	here.cpus = b.facts.cpus + 1;
	assert_refused(&b, b.side, &here, "another machine");
	here = b.facts;
	here.gpu = (char *)"NVIDIA H100";
	assert_refused(&b, b.side, &here, "another GPU");
	here = b.facts;
	here.command = (char *)"train.py --fast";
	assert_refused(&b, b.side, &here, "another command: train.py");
	free(other.side->program);
	other.side->program = strdup("node");
	assert_refused(&b, other.side, &b.facts, "another program: python3, and not node");
	free(other.side->program);
	other.side->program = strdup("python3");
	other.side->steps = 0;
	assert_refused(&b, other.side, &b.facts, "step");
}

/* What a user types is what a file has again: control characters are blanks, other bytes '?'. */
static void a_command_of_any_bytes(void **state)
{
	_cleanup_(baseline) struct baseline b = make_baseline(1, "train\t.py \xff\n"), again = { .side = NULL };
	struct so_error err = { .text = "" };
	size_t length;
	_cleanup_free_ char *text = write_baseline(&b, &length);

	if (baseline__parse("a file", text, length, &again, &err))
		fail_msg("%s", err.text);
	assert_string_equal(again.facts.command, b.facts.command);
	assert_int_equal(baseline__check(&again, b.side, &b.facts, &err), 0);
}

static void assert_damaged(const char *text, const char *from, const char *to)
{
	_cleanup_(baseline) struct baseline b = { .side = NULL };
	_cleanup_free_ char *changed = calloc(1, strlen(text) + strlen(to) + 1);
	const char *at = strstr(text, from);
	struct so_error err = { .text = "" };

	assert_non_null(at);
	sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	assert_int_equal(baseline__parse("a file", changed, strlen(changed), &b, &err), -EINVAL);
	assert_true(*err.text && !strchr(err.text, '\n'));
	assert_null(b.side);
}

static void a_damaged_file(void **state)
{
	_cleanup_(baseline) struct baseline b = make_baseline(2, "");
	size_t length;
	_cleanup_free_ char *text = write_baseline(&b, &length);

	assert_damaged(text, "\"stakeout_baseline\":2", "\"stakeout_baseline\":3");
	assert_damaged(text, "\"per\":\"step\"", "\"per\":\"week\"");
	assert_damaged(text, "\"runs\":1", "\"runs\":2");
	assert_damaged(text, "\"runs\":1", "\"runs\":0");
	assert_damaged(text, "\"line\"", "\"lime\"");
	assert_damaged(text, "\"rows\"", "\"rose\"");
	assert_damaged(text, "]", "");
	for (size_t n = 0; n < length - 2; n += 7) {
		_cleanup_(baseline) struct baseline none = { .side = NULL };
		struct so_error err = { .text = "" };

		assert_int_equal(baseline__parse("a file", text, n, &none, &err), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(it_is_small),
		cmocka_unit_test(what_cannot_be_compared), cmocka_unit_test(a_command_of_any_bytes),
		cmocka_unit_test(a_damaged_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
