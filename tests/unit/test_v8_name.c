/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/v8_name.h"

static void expect(const char *text, const char *function, const char *file, int64_t line)
{
	char *copy = strdup(text);
	struct v8_name name;

	assert_true(v8_name__split(copy, &name));
	assert_string_equal(name.function, function);
	assert_string_equal(name.file, file);
	assert_int_equal(name.line, line);
	free(copy);
}

static void refuse(const char *text)
{
	char *copy = strdup(text);
	struct v8_name name = { .line = -1 };

	assert_false(v8_name__split(copy, &name));
	assert_string_equal(copy, text);
	assert_int_equal(name.line, -1);
	free(copy);
}

static void what_node_writes(void **state)
{
	expect("LazyCompile:*renderPage /home/me/server.js:15", "renderPage", "/home/me/server.js", 15);
	expect("LazyCompile:~ node:internal/per_context/primordials:149", "(anonymous)",
	       "node:internal/per_context/primordials", 149);
	expect("Function:~<instance_members_initializer> node:internal/a:612", "<instance_members_initializer>",
	       "node:internal/a", 612);
	expect("JS:^get size file:///srv/my app/a.mjs:7:21", "get size", "/srv/my app/a.mjs", 7);
	expect("Eval:~ /a.js:1", "(anonymous)", "/a.js", 1);
	expect("Script:+f /a:b:3:4.js:12:1", "f", "/a:b:3:4.js", 12);
}

static void others(void **state)
{
	static const char *const texts[] = {
		"",
		"LazyCompile:",
		"LazyCompile:*f",
		"LazyCompile:*f /a.js",
		"LazyCompile:*f /a.js:",
		"LazyCompile:*f /a.js:x",
		"LazyCompile:*f /a.js:12345678901",
		"LazyCompile:*f a.js:3",
		"RegExp:[<>&] /a.js:1",
		"Builtin:ArrayFilter",
		"Lcom/example/Main;::run /a:1",
		"py::f:/app/a.py",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		refuse(texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_node_writes),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
