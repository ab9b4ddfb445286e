// SPDX-License-Identifier: GPL-2.0-or-later
/* --fail-on: which words are a rule, which row it is about, and when it is hit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/diff/fail_rules.h"

static struct category_rules *rules;
static struct phases *phases;

static int set_up(void **state)
{
	static const char *const words[] = { "encode=^encode" };
	struct so_error err;

	return category_rules__load(NULL, &rules, &err) || phases__new(words, 1, &phases, &err);
}

static int tear_down(void **state)
{
	category_rules__free(rules);
	phases__free(phases);
	return 0;
}

static int parse(const char *words, struct fail_rules *out, struct so_error *err)
{
	struct option_texts texts = { .list = { words }, .n = 1 };

	return fail_rules__parse(&texts, rules, phases, out, err);
}

static void assert_rule(const char *words, bool total, enum row_kind kind, const char *name, double limit, bool points)
{
	struct fail_rules out;
	struct so_error err = { .text = "" };

	if (parse(words, &out, &err))
		fail_msg("%s: %s", words, err.text);
	assert_int_equal(out.n, 1);
	assert_int_equal(out.list[0].total, total);
	if (!total) {
		assert_int_equal(out.list[0].kind, kind);
		assert_string_equal(out.list[0].name, name);
	}
	assert_true(out.list[0].limit == limit);
	assert_int_equal(out.list[0].points, points);
	assert_false(fail_rules__hit(&out));
}

static void words_that_are_rules(void **state)
{
	assert_rule("total > 3 %", true, 0, "", 3, false);
	assert_rule("total>3%", true, 0, "", 3, false);
	assert_rule("  category:logging  >  1.5  pp", false, ROW_CATEGORY, "logging", 1.5, true);
	assert_rule("phase:encode > 0 %", false, ROW_PHASE, "encode", 0, false);
	assert_rule("cuda:cudaMemcpyAsync > 5 %", false, ROW_CUDA, "cudaMemcpyAsync", 5, false);
	assert_rule("cuda:cudaLaunchKernel_ptsz > 5 %", false, ROW_CUDA, "cudaLaunchKernel", 5, false);
	assert_rule("line:step (env.py:12) > 2 %", false, ROW_LINE, "step (env.py:12)", 2, false);
	/* The last > is the sign: names have some of their own. */
	assert_rule("function:at::add<float> > 2 %", false, ROW_FUNCTION, "at::add<float>", 2, false);
	assert_rule("inclusive:operator-> > 2 %", false, ROW_INCLUSIVE, "operator->", 2, false);
}

static void assert_refused(const char *words, const char *why)
{
	struct fail_rules out;
	struct so_error err = { .text = "" };

	assert_int_equal(parse(words, &out, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("%s: '%s' does not say '%s'", words, err.text, why);
}

static void words_that_are_none(void **state)
{
	char name[400];

	assert_refused("", "not of the form");
	assert_refused("total", "not of the form");
	assert_refused("> 3 %", "what may grow");
	assert_refused("total > ", "the limit is a number");
	assert_refused("total > -1 %", "the limit is a number");
	assert_refused("total > nan %", "the limit is a number");
	assert_refused("total > inf %", "the limit is a number");
	assert_refused("total > 3", "behind the limit stands");
	assert_refused("total > 3 % of it", "behind the limit stands");
	assert_refused("total > 3 pp", "a total has no share");
	assert_refused("category: > 3 %", "what may grow");
	assert_refused("kind:name > 3 %", "what may grow");
	assert_refused("category:logs > 3 %", "no such category");
	assert_refused("cuda:cudaMemcpyAsnyc > 3 %", "no CUDA function");
	assert_refused("phase:decode > 3 %", "no such --phase");
	snprintf(name, sizeof(name), "function:%0300d > 3 %%", 7);
	assert_refused(name, "too long");
}

/* A row of the comparison that each test makes. */
static struct compared row(enum row_kind kind, const char *text, double percent, double p)
{
	return (struct compared){ .kind = kind,
				  .text = text,
				  .text_now = text,
				  .in_base = true,
				  .in_now = true,
				  .share_base = 0.1,
				  .share_now = 0.1 * (1 + percent / 100),
				  .change = { .percent = percent, .p = p },
				  .tested = true,
				  .observations = 1000 };
}

static bool is_hit(const char *words, struct compared *rows, size_t n)
{
	struct comparison c = { .unit = COMPARE_STEP, .rows = rows, .n = n, .total = row(ROW_CATEGORY, "", 4, 0.001) };
	struct fail_rules out;
	struct so_error err = { .text = "" };

	assert_int_equal(parse(words, &out, &err), 0);
	if (fail_rules__decide(&out, &c, &err))
		fail_msg("%s: %s", words, err.text);
	assert_int_equal(out.list[0].hit, fail_rules__hit(&out));
	return out.list[0].hit;
}

static void a_change_must_be_large_and_sure(void **state)
{
	struct compared sure = row(ROW_CATEGORY, "logging", 12, 0.001), unsure = row(ROW_CATEGORY, "logging", 12, 0.2),
			faster = row(ROW_CATEGORY, "logging", -12, 0.001), untested = sure;

	untested.tested = false;
	assert_true(is_hit("category:logging > 10 %", &sure, 1));
	assert_false(is_hit("category:logging > 12 %", &sure, 1));
	assert_true(is_hit("category:logging > 1 pp", &sure, 1));
	assert_false(is_hit("category:logging > 1.3 pp", &sure, 1));
	assert_false(is_hit("category:logging > 10 %", &unsure, 1));
	assert_false(is_hit("category:logging > 10 %", &faster, 1));
	assert_false(is_hit("category:logging > 10 %", &untested, 1));
	assert_false(is_hit("category:logging > 10 %", NULL, 0));
	assert_true(is_hit("total > 3 %", NULL, 0));
	assert_false(is_hit("total > 4 %", NULL, 0));
}

static void rows_by_their_names(void **state)
{
	struct compared function = row(ROW_FUNCTION, "step (env.py)", 12, 0.001),
			other = row(ROW_FUNCTION, "stepper (env.py)", 12, 0.001),
			inclusive = row(ROW_INCLUSIVE, "step (env.py)", 12, 0.001),
			line = row(ROW_LINE, "step (env.py)", 12, 0.001);

	line.line = line.line_now = 12;
	assert_true(is_hit("function:step (env.py) > 3 %", &function, 1));
	assert_true(is_hit("function:step > 3 %", &function, 1));
	assert_false(is_hit("function:ste > 3 %", &function, 1));
	assert_false(is_hit("function:step > 3 %", &other, 1));
	assert_false(is_hit("function:step > 3 %", &inclusive, 1));
	assert_true(is_hit("inclusive:step > 3 %", &inclusive, 1));
	assert_true(is_hit("line:step (env.py:12) > 3 %", &line, 1));
	assert_false(is_hit("line:step (env.py:13) > 3 %", &line, 1));
	assert_false(is_hit("line:step > 3 %", &line, 1));
}

/* Of two functions of one name the one that grew decides. */
static void one_of_several_is_enough(void **state)
{
	struct compared rows[] = { row(ROW_FUNCTION, "step (a.py)", 0, 0.9),
				   row(ROW_FUNCTION, "step (b.py)", 20, 0.001) };

	assert_true(is_hit("function:step > 3 %", rows, 2));
}

/* Each rule has its part of the chance to be wrong. */
static void several_rules_share_the_level(void **state)
{
	struct option_texts texts = { .list = { "category:logging > 3 %", "category:imports > 3 %" }, .n = 2 };
	struct compared rows[] = { row(ROW_CATEGORY, "logging", 12, STATISTICS_ALPHA * 0.8),
				   row(ROW_CATEGORY, "imports", 12, STATISTICS_ALPHA * 0.4) };
	struct comparison c = { .unit = COMPARE_STEP, .rows = rows, .n = 2 };
	struct fail_rules out;
	struct so_error err = { .text = "" };

	if (fail_rules__parse(&texts, rules, phases, &out, &err))
		fail_msg("%s", err.text);
	assert_int_equal(fail_rules__decide(&out, &c, &err), 0);
	assert_false(out.list[0].hit);
	assert_true(out.list[1].hit);
	assert_true(is_hit("category:logging > 3 %", rows, 1));
}

static void what_cannot_be_decided(void **state)
{
	struct comparison shares = { .unit = COMPARE_SHARE }, unsure = { .unit = COMPARE_STEP };
	struct fail_rules out;
	struct so_error err = { .text = "" };

	assert_int_equal(parse("total > 3 %", &out, &err), 0);
	assert_int_equal(fail_rules__decide(&out, &shares, &err), -EINVAL);
	assert_non_null(strstr(err.text, "of shares there is no total"));
	assert_int_equal(fail_rules__decide(&out, &unsure, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no variation is known"));
}

static void as_json(void **state)
{
	struct compared rows[] = { row(ROW_CATEGORY, "logging", 12, 0.001) };
	struct comparison c = { .unit = COMPARE_STEP, .rows = rows, .n = 1 };
	struct fail_rules out;
	struct so_error err = { .text = "" };
	json_t *json;

	assert_int_equal(parse("category:logging > 3 %", &out, &err), 0);
	assert_int_equal(fail_rules__decide(&out, &c, &err), 0);
	json = fail_rules__json(&out);
	assert_true(json_is_true(json_object_get(json_array_get(json, 0), "hit")));
	assert_true(json_real_value(json_object_get(json_array_get(json, 0), "change_percent")) == 12);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_that_are_rules),
		cmocka_unit_test(words_that_are_none),
		cmocka_unit_test(a_change_must_be_large_and_sure),
		cmocka_unit_test(rows_by_their_names),
		cmocka_unit_test(one_of_several_is_enough),
		cmocka_unit_test(several_rules_share_the_level),
		cmocka_unit_test(what_cannot_be_decided),
		cmocka_unit_test(as_json),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
