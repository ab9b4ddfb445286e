// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/render/render.h"
#include "profile/folded_read.h"

static struct profile *read_text(const char *text)
{
	struct profile *profile = NULL;
	struct so_error err = { .text = "" };

	assert_true(folded_read__is_text(text, strlen(text)));
	if (folded_read(text, strlen(text), &profile, &err))
		fail_msg("%s", err.text);
	return profile;
}

static const struct profile_line *frame(const struct profile *p, size_t sample, size_t from_leaf)
{
	return &p->lines[p->samples[sample].lines[from_leaf]];
}

static void frames_and_threads(void **state)
{
	struct profile *p = read_text("my_prog-12/34;main;f (x.py:7);g (y.py);[python:gone] 5\n"
				      "a-b;<module> (<string>:3);[libc.so.6+0x12];[libm.so.6];do_it_[k] 7\n");

	assert_int_equal(p->n_samples, 2);
	assert_int_equal(p->samples[0].count, 5);
	assert_int_equal(p->samples[0].n_lines, 4);
	assert_string_equal(p->samples[0].comm, "my_prog");
	assert_int_equal(p->samples[0].pid, 12);
	assert_int_equal(p->samples[0].tid, 34);
	assert_true(frame(p, 0, 0)->python);
	assert_string_equal(frame(p, 0, 1)->function, "g");
	assert_string_equal(frame(p, 0, 1)->filename, "y.py");
	assert_int_equal(frame(p, 0, 1)->line, 0);
	assert_string_equal(frame(p, 0, 2)->filename, "x.py");
	assert_int_equal(frame(p, 0, 2)->line, 7);
	assert_false(frame(p, 0, 3)->python);
	assert_string_equal(p->samples[1].comm, "a-b");
	assert_int_equal(p->samples[1].pid, 0);
	assert_true(frame(p, 1, 0)->kernel);
	assert_string_equal(frame(p, 1, 0)->function, "do_it");
	assert_string_equal(frame(p, 1, 1)->mapping, "libm.so.6");
	assert_string_equal(frame(p, 1, 2)->mapping, "libc.so.6");
	assert_true(frame(p, 1, 3)->python);
	profile__free(p);
}

/* What stakeout writes comes out as it went in. */
static void there_and_back(void **state)
{
	static const char text[] = "a;[jit];x 1 y;[unknown];[native] 3\n"
				   "python3;main;<module> (a.py:1);run (pkg/__init__.py:20);[libc.so.6];w_[k] 9\n"
				   "python3;main;[lib x.so+0x10];std::pair<int, (anonymous namespace)::X> 2\n"
				   "python3;main;operator()(int) (const) 1000000000000\n";
	struct profile *p = read_text(text);
	struct so_error err = { .text = "" };
	char *out = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&out, &length);

	assert_int_equal(render__folded(p, NULL, file, &err), 0);
	fclose(file);
	assert_string_equal(out, text);
	free(out);
	profile__free(p);
}

/* py-spy's lines have no thread in front; others have comments, other blanks, points. */
static void other_tools(void **state)
{
	struct profile *p = read_text("# a comment\r\n\nmain (x.py:1);f (x.py:2) 3\r\nprog;f\t4.0");

	assert_int_equal(p->n_samples, 2);
	assert_int_equal(p->samples[0].n_lines, 2);
	assert_string_equal(p->samples[0].comm, "");
	assert_int_equal(p->samples[1].count, 4);
	assert_string_equal(frame(p, 1, 0)->function, "f");
	profile__free(p);
}

static void what_is_none(void **state)
{
	static const char *const cases[][2] = {
		{ "a;b 1\na;c\n", "line 2 has no count" }, { "{\n\"a\": 1\n}\n", "line 1 has no count" },
		{ "12\n", "line 1 has no count" },         { "a 1234567890123456789\n", "line 1 has no count" },
		{ "a -1\n", "line 1 has no count" },       { "# only this\n", "it has no stack" },
	};
	char many[1000] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *p = NULL;
		struct so_error err = { .text = "" };

		assert_int_equal(folded_read(cases[i][0], strlen(cases[i][0]), &p, &err), -EINVAL);
		assert_null(p);
		if (!strstr(err.text, cases[i][1]))
			fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i][1]);
	}
	for (size_t i = 0; i < 20; i++)
		strcat(many, "a 999999999999999999\n");
	assert_int_equal(folded_read(many, strlen(many), &(struct profile *){ NULL }, NULL), -EINVAL);
	assert_false(folded_read__is_text("\x0a\x04\x08\x01", 4));
	assert_false(folded_read__is_text("\x1f\x8b", 2));
	assert_false(folded_read__is_text("", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_and_threads),
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(other_tools),
		cmocka_unit_test(what_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
