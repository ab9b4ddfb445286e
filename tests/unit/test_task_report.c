// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "client/tasks/task_report.h"
#include "client/tasks/task_waits.h"
#include "stakeout/cleanup.h"

/* With ' for ". */
static json_t *json_of(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_error_t why;
	json_t *json;

	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	json = json_loads(copy, JSON_DECODE_ANY, &why);
	assert_non_null(json);
	return json;
}

static char *print(const char *answer, unsigned most)
{
	json_t *json = json_of(answer);
	struct so_error err = { "" };
	size_t n;
	char *text = NULL;
	FILE *out = open_memstream(&text, &n);

	assert_int_equal(task_report__print(json, most, out, &err), 0);
	fclose(out);
	json_decref(json);
	return text;
}

#define FRAME(function, file, line) "{'function': '" function "', 'file': '" file "', 'line': " #line "}"
#define TASK(name, state, chain, awaited_by)                                                                       \
	"{'name': '" name "', 'state': '" state "', 'chain': " #chain ", 'cut': false, 'awaited_by': [" awaited_by \
	"], 'more_waiters': false, 'thread': 7}"
#define CHAINS                                                                                        \
	"'chains': [[" FRAME("main", "/a/app.py", 9) "], [" FRAME("work", "/a/app.py", 3) ", " FRAME( \
		"sleep", "/usr/lib/python3.14/asyncio/tasks.py", 700) "], [" FRAME("spin", "/a/app.py", 5) "]]"
#define ANSWER                                                                                                  \
	"{'pid': 7, 'python': '3.14', 'found': 6, 'changed': 1, 'unread': 2, 'ended': 0, 'list_changed': true," \
	" 'more': false, 'loops': [7], " CHAINS ", 'tasks': [" TASK("Task-1", "waiting", 0, "") ", " TASK(      \
		"b", "waiting", 1, "0") ", " TASK("c", "waiting", 1, "0") ", " TASK("d\\u001b", "running", 2, "") "]}"

static void equal_tasks_are_one_group(void **state)
{
	_cleanup_free_ char *text = print(ANSWER, 20);

	assert_string_equal(text, "Process 7, CPython 3.14, 1 running event loop: 4 tasks: 1 running, 3 waiting\n"
				  "1 more ended or changed while being read, and are not shown\n"
				  "2 more could not be read in time\n"
				  "the lists of tasks changed while being read: there may be more tasks\n"
				  "\n1 task running: d?\n"
				  "    spin (app.py:5)\n"
				  "\n2 tasks waiting for a sleep: b, c\n"
				  "    sleep (tasks.py:700)\n"
				  "    work (app.py:3)\n"
				  "    awaited by Task-1 in main (app.py:9)\n"
				  "\n1 task waiting for a task or future: Task-1\n"
				  "    main (app.py:9)\n");
}

static void groups_are_left_out_at_the_end(void **state)
{
	_cleanup_free_ char *text = print(ANSWER, 1);

	assert_non_null(strstr(text, "1 task running"));
	assert_null(strstr(text, "sleep"));
	assert_non_null(strstr(text, "\n2 more groups: -n 3\n"));
}

/* Indices that lead nowhere, tasks that await each other, members of another kind. */
static void strange_answers_are_printed(void **state)
{
	static const char *const answers[] = {
		"{}",
		"[]",
		"{'tasks': 7, 'chains': {}}",
		"{'tasks': [7, {}, []], 'chains': []}",
		"{'tasks': [" TASK("a", "waiting", 99, "1") ", " TASK("b", "?", 0, "0, 77, -1") "], 'chains': [[7]]}",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		_cleanup_free_ char *text = print(answers[i], 20);

		assert_memory_equal(text, "Process ", 8);
	}
}

static const char *waits_for(const char *function, const char *file)
{
	json_t *frames = json_pack("[{s:s, s:s}]", "function", function, "file", file);
	const char *words = task_waits__for(frames);

	json_decref(frames);
	return words;
}

static void what_is_waited_for_is_known_by_asyncio_alone(void **state)
{
	assert_string_equal(waits_for("Queue.get", "/x/asyncio/queues.py"), "an item of a queue");
	assert_string_equal(waits_for("Lock.acquire", "/x/asyncio/locks.py"), "a lock");
	assert_null(waits_for("Lock.acquire", "/x/mine/locks.py"));
	assert_null(waits_for("Lock.acquire", "locks.py"));
	assert_null(waits_for("fetch", "/x/asyncio/tasks.py"));
	assert_null(task_waits__for(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_tasks_are_one_group),
		cmocka_unit_test(groups_are_left_out_at_the_end),
		cmocka_unit_test(strange_answers_are_printed),
		cmocka_unit_test(what_is_waited_for_is_known_by_asyncio_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
