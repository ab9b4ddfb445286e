// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rules: their syntax, what they match, what they refuse; how /proc's texts become what they look at; who may have
 * which.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine.h"
#include "daemon/rules/match_proc.h"
#include "daemon/rules/match_rule.h"
#include "daemon/rules/match_table.h"

#define USER 1000

static struct match_rule *rule_of(const char *text, uid_t owner)
{
	struct match_rule *rule = NULL;
	struct so_error err = { "" };

	if (match_rule__parse(text, owner, &rule, &err))
		fail_msg("%s: %s", text, err.text);
	return rule;
}

static bool matches(const char *text, uid_t uid, const char *command, const char *cgroups)
{
	_cleanup_(match_rule) struct match_rule *rule = rule_of(text, 0);

	return match_rule__matches(rule, &(struct match_process){ uid, command, cgroups });
}

static void a_text_without_terms_is_a_pattern(void **state)
{
	assert_true(matches("python.*train", 0, "/usr/bin/python3 train.py", ""));
	assert_true(matches("  python.*train\t", 0, "/usr/bin/python3 train.py", ""));
	assert_false(matches("python.*train", 0, "/usr/bin/python3 eval.py", ""));
	assert_true(matches("^python3 -m (train|eval)$", 0, "python3 -m eval", ""));
	assert_false(matches("^python3 -m (train|eval)$", 0, "python3 -m evals", ""));
	assert_true(matches("train.py --device cuda", 0, "python train.py --device cuda", ""));
	assert_true(matches("--lr=0.1", 0, "train --lr=0.1", ""));
	assert_false(matches("train", 0, "Train", ""));
	/* A process without a command line is none that any pattern means. */
	assert_false(matches(".*", 0, "", ""));
	assert_true(matches("^[0-9a-f]{12}$", 0, "0123456789ab", ""));
	assert_true(matches("^(x+y)+(z|w)+.*?$", 0, "xxyxyzwz!", ""));
}

static void terms_all_have_to_match(void **state)
{
	static const char cgroups[] = "/\n/user.slice\n/kubepods/pod1/abc";

	assert_true(matches("cmd=train", 5, "train.py", ""));
	assert_true(matches("cmd=train user=5", 5, "train.py", ""));
	assert_false(matches("cmd=train user=6", 5, "train.py", ""));
	assert_true(matches("user=root", 0, "anything", ""));
	assert_true(matches("user=root", 0, "", ""));
	assert_false(matches("user=root", 1, "anything", ""));
	assert_true(matches("cgroup=kubepods", 0, "", cgroups));
	assert_true(matches("cgroup=^/user.slice$", 0, "", cgroups)); /* a path for itself */
	assert_false(matches("cgroup=slice.*kubepods", 0, "", cgroups));
	assert_false(matches("cgroup=docker", 0, "", cgroups));
	assert_true(matches("user=5\tcgroup=abc  cmd=x", 5, "x", cgroups));
	assert_false(matches("user=5 cgroup=abc cmd=x", 5, "y", cgroups));
	assert_true(matches("cmd=\"python .*train\" user=5", 5, "python a/train", ""));
	assert_true(matches("cmd='a \"b\" c'", 0, "a \"b\" c", ""));
	assert_true(matches("cmd='user=x'", 0, "env user=x", ""));
	assert_true(matches("cmd=\\bcuda", 0, "see cuda", ""));
}

static void options_of_the_attachment(void **state)
{
	_cleanup_(match_rule) struct match_rule *plain = rule_of(" x y ", 7);
	_cleanup_(match_rule) struct match_rule *full = rule_of("cmd=x rate=49 cuda cgroup=y", 0);

	assert_string_equal(match_rule__text(plain), "x y");
	assert_int_equal(match_rule__owner(plain), 7);
	assert_int_equal(match_rule__rate_hz(plain), 0);
	assert_false(match_rule__cuda(plain));
	assert_false(match_rule__wants_cgroup(plain));
	assert_int_equal(match_rule__rate_hz(full), 49);
	assert_true(match_rule__cuda(full));
	assert_true(match_rule__wants_cgroup(full));
}

static void a_users_rule_is_for_their_own_processes(void **state)
{
	_cleanup_(match_rule) struct match_rule *rule = rule_of("cmd=x", USER), *none = NULL;
	_cleanup_(match_rule) struct match_rule *own = rule_of("user=1000", USER);
	struct so_error err = { "" };

	assert_true(match_rule__matches(rule, &(struct match_process){ USER, "x", "" }));
	assert_false(match_rule__matches(rule, &(struct match_process){ USER + 1, "x", "" }));
	assert_false(match_rule__matches(rule, &(struct match_process){ 0, "x", "" }));
	assert_true(match_rule__matches(own, &(struct match_process){ USER, "x", "" }));
	assert_int_equal(match_rule__parse("user=root", USER, &none, &err), -EPERM);
	assert_non_null(strstr(err.text, "only root"));
	assert_null(none);
}

static void what_is_no_rule_is_said(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "", "without a word" },
		{ " \t ", "without a word" },
		{ "a\nb", "control character" },
		{ "a\x1b[2J", "control character" },
		{ "(", "not a regular expression" },
		{ "[a", "not a regular expression" },
		{ "cmd=*(", "not a regular expression" },
		{ "cmd=", "cmd= has no value" },
		{ "cmd=\"\"", "cmd= has no value" },
		{ "cmd=\"a", "no second \"" },
		{ "cmd='a\"", "no second '" },
		{ "cmd=\"a\"b", "a blank must follow" },
		{ "cmd=a cmd=b", "twice" },
		{ "cmd=python .*train", "'.*train' is no term" },
		{ "cmd=a cude", "'cude' is no term" },
		{ "cmd=a usr=b", "'usr=b' is no term" },
		{ "usr=alice train", "'usr=' is no term" },
		{ "train user=alice", "'user=' behind a pattern" },
		{ "python.*train rate=49", "'rate=' behind a pattern" },
		{ "user=no-such-user-here", "there is no user 'no-such-user-here'" },
		{ "user=-1", "there is no user" },
		{ "user=4294967295", "there is no user" },
		{ "rate=49", "needs cmd=, cgroup= or user=" },
		{ "rate=49 cuda", "needs cmd=, cgroup= or user=" },
		{ "cmd=a rate=0", "from 1 to 10000" },
		{ "cmd=a rate=10001", "from 1 to 10000" },
		{ "cmd=a rate=4x", "from 1 to 10000" },
		{ "cmd=a rate=-4", "from 1 to 10000" },
		{ "(a)\\1", "invalid escape sequence: \\1" },
		{ "(a", "missing )" },
		{ "[a", "missing ]" },
		{ "*a", "no argument for repetition operator" },
		{ "a{1001}", "invalid repetition size: {1001}" },
		{ "((((a{1,99}){1,99}){1,99}){1,99})", "invalid repetition size" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct match_rule *rule = NULL;
		struct so_error err = { "" };

		assert_int_equal(match_rule__parse(cases[i].text, 0, &rule, &err), -EINVAL);
		assert_null(rule);
		if (!strstr(err.text, cases[i].words) || strchr(err.text, '\n'))
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, err.text, cases[i].words);
	}
}

static void a_rule_has_so_many_bytes(void **state)
{
	char text[MATCH_RULE_MAX_BYTES + 2];
	struct match_rule *rule = NULL;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(match_rule__parse(text, 0, &rule, NULL), -EINVAL);
	text[MATCH_RULE_MAX_BYTES] = '\0';
	match_rule__free(rule_of(text, 0));
}

/* A pattern with many states, over texts that make as many as they have bytes. */
static void a_pattern_of_many_states_matches_rightly(void **state)
{
	_cleanup_(match_rule) struct match_rule *rule = rule_of("(a|b)*a(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)x$", 0);
	char text[MATCH_COMMAND_MAX_BYTES + 1];

	srand(1);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(text) - 2; i++)
			text[i] = rand() & 4 ? 'a' : 'b';
		text[sizeof(text) - 2] = 'x';
		text[sizeof(text) - 1] = '\0';
		text[sizeof(text) - 11] = round & 1 ? 'a' : 'b';
		assert_int_equal(match_rule__matches(rule, &(struct match_process){ 0, text, "" }), round & 1);
	}
}

static void parentheses_belong_together(void **state)
{
	static const char *const refused[] = { "a)b", ")", "a)(b", "[a])", "\\()", "[[:alpha:]])", "[^]])" };
	static const char *const taken[] = { "(a)b", "[)]", "\\)", "[^]()]", "[]()]", "[[:alpha:])]x|y", "()b|a" };
	struct match_rule *rule = NULL;
	struct so_error err;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		err.text[0] = '\0';
		if (match_rule__parse(refused[i], 0, &rule, &err) != -EINVAL)
			fail_msg("%s was taken", refused[i]);
		assert_non_null(strstr(err.text, "unexpected )"));
	}
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		match_rule__free(rule_of(taken[i], 0));
	assert_true(matches("a|b", 0, "xxb", ""));
	assert_false(matches("^a|^b", 0, "xxb", ""));
	assert_true(matches("^a|^b", 0, "bx", ""));
	assert_true(matches("x$|y$", 0, "xy", ""));
	assert_true(matches("\\)", 0, "f(x)", ""));
}

/* As programs given with -c have them. */
static void a_command_line_may_have_several_lines(void **state)
{
	assert_true(matches("python.*train", 0, "python3 -c import time\ntime.sleep(1) train", ""));
	assert_true(matches("time[^)]*sleep", 0, "python3 -c import time\ntime.sleep(1) train", ""));
	assert_false(matches("^time", 0, "python3 -c import time\ntime.sleep(1) train", ""));
	assert_false(matches("time$", 0, "python3 -c import time\ntime.sleep(1) train", ""));
}

/* From any user. Searched for from each character on, these take a minute and a gigabyte. */
static void costly_patterns_cost_little(void **state)
{
	static const char *const patterns[] = { "[ab]*a[ab]{250}X", "(a|b)*a(a|b)[ab]{200}X|[ab]{40}Y",
						"(.*a){40}(.*b){40}X", "(((a?b?)+)+)+X" };
	char text[4097];
	uint32_t random = 7;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		random = random * 1664525 + 1013904223;
		text[i] = random >> 31 ? 'a' : 'b';
	}
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		assert_false(matches(patterns[i], 0, text, ""));
}

static void stat_lines(void **state)
{
	static const char line[] =
		"12 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 777 9 9 18446744073709551615 "
		"94 95 140737488347136 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 93 94 95 140737488349000 "
		"140737488349100 140737488349100 140737488351210 0\n";
	struct match_entry e = { 0 }, other;
	char text[sizeof(line)];

	assert_true(match_proc__parse_stat(line, &e));
	assert_int_equal(e.ppid, 7);
	assert_int_equal(e.start_ticks, 777);
	assert_string_equal(e.comm, "a) b (c");
	assert_false(e.unfit);
	/* Another stack, another program. */
	strcpy(text, line);
	memcpy(strstr(text, "140737488347136"), "140737488347137", 15);
	assert_true(match_proc__parse_stat(text, &other));
	assert_int_not_equal(other.image, e.image);
	strcpy(text, line);
	memcpy(strstr(text, "a) b"), "a) d", 4);
	assert_true(match_proc__parse_stat(text, &other));
	assert_int_not_equal(other.image, e.image);
	/* A first thread that has ended does not make a process a zombie, if others run. */
	strcpy(text, line);
	*strstr(text, "S 7") = 'Z';
	assert_true(match_proc__parse_stat(text, &other));
	assert_false(other.unfit);
	memcpy(strstr(text, " 3 0 777"), " 1 0 777", 8);
	assert_true(match_proc__parse_stat(text, &other));
	assert_true(other.unfit);
	strcpy(text, line);
	memcpy(strstr(text, "4194560"), "2097152", 7); /* PF_KTHREAD */
	assert_true(match_proc__parse_stat(text, &other));
	assert_true(other.unfit);
	for (size_t i = 0; i < strlen(line) - 80; i++) {
		memcpy(text, line, i);
		text[i] = '\0';
		assert_false(match_proc__parse_stat(text, &other));
	}
}

static void texts_of_proc(void **state)
{
	char arguments[] = "python\0-c\0a b\0\0\0", none[4] = "", cgroups[] = "12:pids:/a:b\n1:name=systemd:/\n0::/k\n";
	char odd[] = "nonsense\n0::/x\n:\n", title[] = "title";

	match_proc__join_arguments(arguments, sizeof(arguments) - 1);
	assert_string_equal(arguments, "python -c a b");
	match_proc__join_arguments(none, 3);
	assert_string_equal(none, "");
	match_proc__join_arguments(title, 5);
	assert_string_equal(title, "title");
	match_proc__cut_cgroups(cgroups);
	assert_string_equal(cgroups, "/a:b\n/\n/k");
	match_proc__cut_cgroups(odd);
	assert_string_equal(odd, "/x");
}

static uint32_t add(struct match_table *t, const char *text, uid_t owner, int code)
{
	struct so_error err = { "" };
	uint32_t id = 0;

	if (match_table__add(t, text, (struct caller){ owner, 0 }, !owner, &id, &err) != code)
		fail_msg("%s: %s", text, err.text);
	return id;
}

static void tables_have_room_for_all_users(void **state)
{
	_cleanup_(match_table) struct match_table *t = NULL;
	struct match_rule_info *all = calloc(MATCH_RULES_MAX, sizeof(*all));
	char text[16];

	assert_int_equal(match_table__new(&t), 0);
	for (unsigned i = 0; i <= MATCH_RULES_MAX_USER; i++) {
		snprintf(text, sizeof(text), "x%u", i);
		add(t, text, USER, i < MATCH_RULES_MAX_USER ? 0 : -ENOSPC);
	}
	for (unsigned i = MATCH_RULES_MAX_USER; i <= MATCH_RULES_MAX; i++) {
		snprintf(text, sizeof(text), "x%u", i);
		add(t, text, 0, i < MATCH_RULES_MAX ? 0 : -ENOSPC);
	}
	assert_int_equal(match_table__list(t, 0, all), MATCH_RULES_MAX);
	assert_int_equal(match_table__list(t, USER, all), MATCH_RULES_MAX_USER);
	assert_int_equal(match_table__list(t, USER + 1, all), 0);
	free(all);
}

static void a_table_keeps_users_apart(void **state)
{
	_cleanup_(match_table) struct match_table *t = NULL;
	struct match_rule_info info;
	struct so_error err = { "" };
	uint32_t first, second, third, last;
	uint64_t removed;
	bool cgroups;

	assert_int_equal(match_table__new(&t), 0);
	first = add(t, "cmd=a", 0, 0);
	second = add(t, "cmd=a rate=7", USER, 0);
	add(t, "cmd=a", 0, -EEXIST);
	add(t, "cmd=(", 0, -EINVAL);
	third = add(t, "cmd=a", USER, 0); /* another's does not count */
	assert_true(first == 1 && second == 2 && third == 3);
	/* The first that matches, behind one. */
	assert_int_equal(match_table__find(t, &(struct match_process){ USER, "a", "" }, 0, &info), 0);
	assert_int_equal(info.id, first);
	assert_int_equal(info.rate_hz, ENGINE_DEFAULT_RATE_HZ);
	assert_true(info.configured);
	assert_int_equal(match_table__find(t, &(struct match_process){ USER, "a", "" }, 1, &info), 0);
	assert_int_equal(info.id, second);
	assert_int_equal(info.owner, USER);
	assert_int_equal(info.rate_hz, 7);
	assert_int_equal(match_table__find(t, &(struct match_process){ 0, "a", "" }, 1, &info), -ENOENT);
	assert_int_equal(match_table__remove(t, USER, first, &err), -ENOENT);
	assert_int_equal(match_table__remove(t, USER + 1, second, &err), -ENOENT);
	assert_int_equal(match_table__get(t, USER, first, &info), -ENOENT);
	match_table__failed(t, second, "no room");
	assert_int_equal(match_table__get(t, USER, second, &info), 0);
	assert_string_equal(info.problem, "no room");
	assert_true(match_table__attached(t, second));
	assert_int_equal(match_table__get(t, 0, second, &info), 0);
	assert_string_equal(info.problem, "");
	assert_int_equal(info.attached, 1);
	assert_int_equal(match_table__remove(t, USER, second, &err), 0);
	assert_int_equal(match_table__remove(t, 0, third, &err), 0);
	assert_false(match_table__attached(t, second));
	match_table__state(t, &last, &removed, &cgroups);
	assert_true(last == first && removed == 2 && !cgroups);
	assert_int_equal(add(t, "cgroup=b", 0, 0), 4);
	match_table__state(t, &last, &removed, &cgroups);
	assert_true(last == 4 && cgroups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_without_terms_is_a_pattern),
		cmocka_unit_test(terms_all_have_to_match),
		cmocka_unit_test(options_of_the_attachment),
		cmocka_unit_test(a_users_rule_is_for_their_own_processes),
		cmocka_unit_test(what_is_no_rule_is_said),
		cmocka_unit_test(a_rule_has_so_many_bytes),
		cmocka_unit_test(a_pattern_of_many_states_matches_rightly),
		cmocka_unit_test(parentheses_belong_together),
		cmocka_unit_test(a_command_line_may_have_several_lines),
		cmocka_unit_test(costly_patterns_cost_little),
		cmocka_unit_test(stat_lines),
		cmocka_unit_test(texts_of_proc),
		cmocka_unit_test(tables_have_room_for_all_users),
		cmocka_unit_test(a_table_keeps_users_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
