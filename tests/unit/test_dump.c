// SPDX-License-Identifier: GPL-2.0-or-later
/* How the threads of a process are written. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "client/render/dump_text.h"
#include "daemon/profile/profile_builder.h"

#define NATIVE(name, file)                                        \
	{                                                         \
		.function = name, .filename = "", .mapping = file \
	}
#define KERNEL(name)                                                                             \
	{                                                                                        \
		.function = name, .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true \
	}
#define PYTHON(name, file, number)                                                                \
	{                                                                                         \
		.function = name, .filename = file, .mapping = "", .python = true, .line = number \
	}

static const struct dump_part whole = { .kernel = true };

typedef int render_fn(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err);

/* Not inlined: gcc would take the memory stream's buffer for a local variable that has gone. */
static __attribute__((noinline)) char *render(render_fn *fn, const struct dump *dump,
					      const struct dump_part *part)
{
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(fn(dump, part, out, &err), 0);
	assert_string_equal(err.text, "");
	fclose(out);
	assert_int_equal(text[length - 1], '\n');
	return text;
}

static void assert_text(const struct dump *dump, const struct dump_part *part, const char *expected)
{
	char *text = render(dump_text__print, dump, part);

	assert_string_equal(text, expected);
	free(text);
}

/* One thread with one frame, or without any. */
static struct profile one_thread(const struct profile_line *line, struct profile_sample *sample)
{
	static const uint32_t stack[] = { 0 };

	*sample = (struct profile_sample){ .count = 1,
					   .pid = 7,
					   .tid = 7,
					   .comm = "x",
					   .state = "sleeping",
					   .lines = stack,
					   .n_lines = !!line };
	return (struct profile){
		.lines = (struct profile_line *)line, .n_lines = !!line, .samples = sample, .n_samples = 1
	};
}

static void frames_read_as_documented(void **state)
{
	static const struct {
		struct profile_line line;
		const char *text;
	} cases[] = {
		{ NATIVE("main", "/usr/bin/x"), "main (x)" },
		{ NATIVE("", "/usr/lib/libfoo.so.1"), "[libfoo.so.1]" },
		{ NATIVE("f", "[vdso]"), "f ([vdso])" },
		{ NATIVE("", "[vdso]"), "[vdso]" },
		{ NATIVE("", "//anon"), "[anon]" },
		{ NATIVE("jitted", ""), "jitted" },
		{ NATIVE("jitted", "/dir/"), "jitted" },
		{ NATIVE("", ""), "[unknown]" },
		{ NATIVE("", "/dir/"), "[unknown]" },
		{ NATIVE("  ", " "), "[unknown]" },
		{ NATIVE("[truncated:no-rules]", ""), "[truncated:no-rules]" },
		{ NATIVE(DUMP_MOVED, ""), DUMP_MOVED },
		{ NATIVE("a;b(int)::{lambda()#1}", "/l;x.so"), "a;b(int)::{lambda()#1} (l;x.so)" },
		{ KERNEL("do_syscall_64"), "do_syscall_64 [kernel]" },
		{ KERNEL(""), "[kernel]" },
		{ PYTHON("step", "/app/env.py", 42), "step (/app/env.py:42)" },
		{ PYTHON("<module>", "<string>", 1), "<module> (<string>:1)" },
		{ PYTHON("step", "env.py", 0), "step (env.py)" },
		{ PYTHON("[python:stale]", "", 0), "[python:stale]" },
		{ PYTHON("schön", "/ö/x y.py", INT64_MAX), "schön (/ö/x y.py:9223372036854775807)" },
		{ PYTHON(" ", "x.py", 3), "[unknown] (x.py:3)" },
		/* Nothing steers a terminal or begins a line of its own. */
		{ PYTHON("a\nThread 1\x1b[2J", "/b\t\x7f.py", 3), "a?Thread 1?[2J (/b??.py:3)" },
		{ NATIVE("c\xc2\x85\xff\xe2\x82", "/d\r"), "c???? (d?)" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile_sample sample;
		struct profile p = one_thread(&cases[i].line, &sample);
		struct dump dump = { .pid = 7, .command = "x", .profile = &p };
		char expected[256];

		snprintf(expected, sizeof(expected), "Process 7: x\n\nThread 7 (sleeping): x\n    %s\n",
			 cases[i].text);
		assert_text(&dump, &whole, expected);
	}
}

static void the_head_says_what_it_is(void **state)
{
	const char *versions[] = { "stakeout.pid=7", "stakeout.python.version=3.11" };
	const char *two[] = { "stakeout.python.version=3.8",
			      "stakeout.python.problem=CPython 3.7 is not\x1bsupported",
			      "stakeout.python.version=3.12" };
	struct profile p = { .comments = versions, .n_comments = 2 };
	struct dump dump = { .pid = 7, .command = "python3 -c import x; y\n\x1b ", .profile = &p };

	assert_text(&dump, &whole, "Process 7: python3 -c import x; y??\nCPython 3.11\n");
	p.n_comments = 1;
	assert_text(&dump, &whole, "Process 7: python3 -c import x; y??\n");
	p.comments = two;
	p.n_comments = 3;
	dump.command = "x";
	assert_text(&dump, &whole, "Process 7: x\nCPython 3.8, 3.12\nPython: CPython 3.7 is not?supported\n");
	p.comments = &two[1];
	p.n_comments = 1;
	assert_text(&dump, &whole, "Process 7: x\nPython: CPython 3.7 is not?supported\n");
}

static void threads_say_what_they_do(void **state)
{
	static const struct {
		const char *state, *comm;
		enum profile_gil gil;
		const char *text;
	} cases[] = {
		{ "sleeping", "python3", PROFILE_GIL_RELEASED, "Thread 7 (sleeping): python3 (MainThread)" },
		{ "running", "my train", PROFILE_GIL_HELD, "Thread 7 (running, holds the GIL): my train (MainThread)" },
		{ "waiting", "", PROFILE_GIL_NONE, "Thread 7 (waiting): [unknown]" },
		{ "", "x", PROFILE_GIL_HELD, "Thread 7 (holds the GIL): x (MainThread)" },
		{ "", "x\n", PROFILE_GIL_NONE, "Thread 7: x?" },
		{ "\x1b", "x", PROFILE_GIL_NONE, "Thread 7 (?): x" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile_sample sample;
		struct profile p = one_thread(NULL, &sample);
		struct dump dump = { .pid = 7, .command = "x", .profile = &p };
		char expected[256];

		sample.state = cases[i].state;
		sample.comm = cases[i].comm;
		sample.gil = cases[i].gil;
		snprintf(expected, sizeof(expected), "Process 7: x\n\n%s\n    [no frames]\n", cases[i].text);
		assert_text(&dump, &whole, expected);
	}
}

/* A Python program's threads in an order that is not theirs. The main thread's number is not the lowest. */
static struct profile_line lines[] = {
	KERNEL("futex_wait"),
	NATIVE("pthread_cond_timedwait", "/l/libc.so.6"),
	PYTHON("step", "/a/env.py", 42),
	NATIVE("", "/l/native.so"),
	PYTHON("main", "/a/run.py", 9),
	NATIVE("_start", "/usr/bin/python3"),
	NATIVE(DUMP_MOVED, ""),
	NATIVE("[truncated:depth]", ""),
};
static const uint32_t main_stack[] = { 2, 3, 4, 5 }, waits[] = { 0, 1, 4, 7 }, pool[] = { 0, 1 },
		      moved[] = { 6 }, in_kernel[] = { 0 };
static struct profile_sample threads[] = {
	{ .lines = moved, .n_lines = 1, .count = 1, .pid = 70, .tid = 73, .comm = "fast", .state = "running" },
	{ .lines = pool, .n_lines = 2, .count = 1, .pid = 70, .tid = 9, .comm = "pool", .state = "sleeping" },
	{ .lines = main_stack,
	  .n_lines = 4,
	  .count = 1,
	  .pid = 70,
	  .tid = 70,
	  .comm = "python3",
	  .state = "running",
	  .gil = PROFILE_GIL_HELD },
	{ .lines = in_kernel,
	  .n_lines = 1,
	  .count = 1,
	  .pid = 70,
	  .tid = 72,
	  .comm = "gone",
	  .state = "ending" },
	{ .lines = waits,
	  .n_lines = 4,
	  .count = 1,
	  .pid = 70,
	  .tid = 71,
	  .comm = "loader",
	  .state = "sleeping",
	  .gil = PROFILE_GIL_RELEASED },
};
static const char *version = "stakeout.python.version=3.11";
static const struct profile program = {
	.lines = lines, .n_lines = 8, .samples = threads, .n_samples = 5, .comments = &version, .n_comments = 1
};
static const struct dump program_dump = { .pid = 70, .command = "python3 run.py", .profile = &program };

#define HEAD "Process 70: python3 run.py\nCPython 3.11\n\n"

/* A native frame says its source line where that is known, and the file that it lies in. */
static void native_lines(void **state)
{
	static struct profile_line native[] = {
		{ .function = "inner", .filename = "/src/inner.h", .line = 3, .mapping = "/opt/sim" },
		{ .function = "outer", .filename = "/src/outer.cpp", .line = 70, .mapping = "" },
		{ .function = "main", .filename = "/src/main.cpp", .mapping = "/opt/sim" },
	};
	static const uint32_t stack[] = { 0, 1, 2 };
	struct profile_sample thread = {
		.lines = stack, .n_lines = 3, .count = 1, .pid = 7, .tid = 7, .comm = "sim", .state = ""
	};
	const struct profile profile = { .lines = native, .n_lines = 3, .samples = &thread, .n_samples = 1 };
	const struct dump dump = { .pid = 7, .command = "sim", .profile = &profile };

	assert_text(&dump, &whole,
		    "Process 7: sim\n\nThread 7: sim\n"
		    "    inner (inner.h:3 in sim)\n"
		    "    outer (outer.cpp:70)\n"
		    "    main (sim)\n");
}

static void the_main_thread_comes_first(void **state)
{
	assert_text(&program_dump, &whole,
		    HEAD "Thread 70 (running, holds the GIL): python3 (MainThread)\n"
			 "    step (/a/env.py:42)\n"
			 "    [native.so]\n"
			 "    main (/a/run.py:9)\n"
			 "    _start (python3)\n"
			 "\n"
			 "Thread 9 (sleeping): pool\n"
			 "    futex_wait [kernel]\n"
			 "    pthread_cond_timedwait (libc.so.6)\n"
			 "\n"
			 "Thread 71 (sleeping): loader\n"
			 "    futex_wait [kernel]\n"
			 "    pthread_cond_timedwait (libc.so.6)\n"
			 "    main (/a/run.py:9)\n"
			 "    [truncated:depth]\n"
			 "\n"
			 "Thread 72 (ending): gone\n"
			 "    futex_wait [kernel]\n"
			 "\n"
			 "Thread 73 (running): fast\n"
			 "    [moved]\n");
}

static void parts_of_the_program(void **state)
{
	assert_text(&program_dump, &(struct dump_part){ .kernel = true, .gil = true },
		    HEAD "Thread 70 (running, holds the GIL): python3 (MainThread)\n"
			 "    step (/a/env.py:42)\n"
			 "    [native.so]\n"
			 "    main (/a/run.py:9)\n"
			 "    _start (python3)\n");
	assert_text(&program_dump, &(struct dump_part){ .kernel = true, .gil = true, .python_only = true },
		    HEAD "Thread 70 (running, holds the GIL): python3 (MainThread)\n"
			 "    step (/a/env.py:42)\n"
			 "    main (/a/run.py:9)\n");
	/* What is not known does not read as if there were no Python frames. */
	assert_text(&program_dump, &(struct dump_part){ .kernel = true, .python_only = true },
		    HEAD "Thread 70 (running, holds the GIL): python3 (MainThread)\n"
			 "    step (/a/env.py:42)\n"
			 "    main (/a/run.py:9)\n"
			 "\n"
			 "Thread 9 (sleeping): pool\n"
			 "    [native]\n"
			 "\n"
			 "Thread 71 (sleeping): loader\n"
			 "    main (/a/run.py:9)\n"
			 "\n"
			 "Thread 72 (ending): gone\n"
			 "    [native]\n"
			 "\n"
			 "Thread 73 (running): fast\n"
			 "    [moved]\n");
	assert_text(&program_dump, &(struct dump_part){ 0 },
		    HEAD "Thread 70 (running, holds the GIL): python3 (MainThread)\n"
			 "    step (/a/env.py:42)\n"
			 "    [native.so]\n"
			 "    main (/a/run.py:9)\n"
			 "    _start (python3)\n"
			 "\n"
			 "Thread 9 (sleeping): pool\n"
			 "    pthread_cond_timedwait (libc.so.6)\n"
			 "\n"
			 "Thread 71 (sleeping): loader\n"
			 "    pthread_cond_timedwait (libc.so.6)\n"
			 "    main (/a/run.py:9)\n"
			 "    [truncated:depth]\n"
			 "\n"
			 "Thread 72 (ending): gone\n"
			 "    [no frames]\n"
			 "\n"
			 "Thread 73 (running): fast\n"
			 "    [moved]\n");
}

static json_t *render_json(const struct dump *dump, const struct dump_part *part)
{
	char *text = render(dump_text__json, dump, part);
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);

	if (!json)
		fail_msg("%s: %s", error.text, text);
	free(text);
	return json;
}

static void assert_json(const json_t *json, const char *expected_text)
{
	json_error_t error;
	json_t *expected = json_loads(expected_text, 0, &error);

	if (!expected)
		fail_msg("%s", error.text);
	if (!json_equal(json, expected))
		fail_msg("%s", json_dumps(json, JSON_INDENT(2)));
	json_decref(expected);
}

static void the_program_as_json(void **state)
{
	json_t *all = render_json(&program_dump, &whole);
	json_t *gil = render_json(&program_dump, &(struct dump_part){ .kernel = true, .gil = true });
	json_t *only = render_json(&program_dump, &(struct dump_part){ .kernel = true, .python_only = true });

	assert_int_equal(json_array_size(all), 5);
	assert_json(json_array_get(all, 2),
		    "{\"tid\": 71, \"comm\": \"loader\", \"thread\": null, \"state\": \"sleeping\","
		    " \"gil\": false, \"frames\": ["
		    "{\"function\": \"futex_wait\", \"file\": null, \"line\": null,"
		    " \"module\": \"[kernel.kallsyms]\", \"kind\": \"kernel\"},"
		    "{\"function\": \"pthread_cond_timedwait\", \"file\": null, \"line\": null,"
		    " \"module\": \"/l/libc.so.6\", \"kind\": \"native\"},"
		    "{\"function\": \"main\", \"file\": \"/a/run.py\", \"line\": 9, \"module\": null,"
		    " \"kind\": \"python\"},"
		    "{\"function\": \"[truncated:depth]\", \"file\": null, \"line\": null, \"module\": null,"
		    " \"kind\": \"native\"}]}");
	assert_true(json_is_null(json_object_get(json_array_get(all, 1), "gil")));
	assert_int_equal(json_array_size(gil), 1);
	assert_true(json_is_true(json_object_get(json_array_get(gil, 0), "gil")));
	/* A frame without a symbol has no name; a marker of the text has no place in an empty stack. */
	assert_true(json_is_null(json_object_get(
		json_array_get(json_object_get(json_array_get(gil, 0), "frames"), 1), "function")));
	assert_json(json_array_get(only, 1),
		    "{\"tid\": 9, \"comm\": \"pool\", \"thread\": null, \"state\": \"sleeping\","
		    " \"gil\": null, \"frames\": []}");
	json_decref(all);
	json_decref(gil);
	json_decref(only);
}

static void json_of_hostile_names(void **state)
{
	static const struct profile_line line = PYTHON("\xff\"\n", "\x1b.py", 3);
	struct profile_sample sample;
	struct profile p = one_thread(&line, &sample);
	struct dump dump = { .pid = 7, .command = "\xff", .profile = &p };
	json_t *json;

	sample.comm = "\xe2\x82";
	sample.state = "";
	json = render_json(&dump, &whole);
	assert_json(json,
		    "[{\"tid\": 7, \"comm\": \"??\", \"thread\": null, \"state\": null, \"gil\": null, \"frames\": ["
		    "{\"function\": \"?\\\"?\", \"file\": \"?.py\", \"line\": 3, \"module\": null,"
		    " \"kind\": \"python\"}]}]");
	json_decref(json);
	p.n_samples = 0;
	json = render_json(&dump, &whole);
	assert_json(json, "[]");
	json_decref(json);
}

static bool note(const struct profile *profile, const struct dump_part *part, char *text, size_t size)
{
	struct dump_left_out sum = { 0 };

	dump_text__count(profile, part, &sum);
	return dump_text__note(&sum, text, size);
}

static void what_is_left_out_is_said(void **state)
{
	struct dump_part part = { .kernel = true, .python_only = true };
	struct profile p = program;
	char text[160] = "untouched";

	assert_false(note(&p, &part, text, sizeof(text)));
	assert_string_equal(text, "untouched");
	part.gil = true;
	assert_true(note(&p, &part, text, sizeof(text)));
	assert_string_equal(text, "4 of 5 threads left out: 3 did not hold the GIL, 1 could not be caught");
	p.samples = &threads[1];
	p.n_samples = 4;
	assert_true(note(&p, &part, text, sizeof(text)));
	assert_string_equal(text, "3 of 4 threads left out: they did not hold the GIL");
	p.samples = &threads[2];
	p.n_samples = 1;
	assert_false(note(&p, &part, text, sizeof(text)));
}

/* From the daemon's builder to the text. */
static void labels_of_the_daemon(void **state)
{
	_cleanup_(profile_builder) struct profile_builder *b = profile_builder__new(1, 0, 0);
	_cleanup_(profile) struct profile *p = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct profile_frame frame = { .name = "step", .filename = "/a/env.py", .line = 42, .start_line = 40 };
	struct profile_labels labels = {
		.pid = 7, .tid = 8, .comm = "loader", .gil = "held", .state = "traced"
	};
	struct process_labels ranks = { .rank = "3", .local_rank = "1" };
	struct dump dump = { .pid = 7, .command = "x" };
	struct so_error err = { "" };
	size_t length;
	uint64_t location = profile_builder__location(b, &frame);

	labels.process = profile_builder__process(b, &ranks);
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 1, &labels), 0);
	labels = (struct profile_labels){ .pid = 7, .tid = 7, .comm = "x", .process = labels.process };
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 1, &labels), 0);
	assert_int_equal(profile_builder__finish(b, &bytes, &length), 0);
	assert_int_equal(profile__read(bytes, length, &p, &err), 0);
	assert_string_equal(p->samples[1].local_rank, "1");
	dump.profile = p;
	assert_text(&dump, &whole,
		    "Process 7: x, rank 3\n\nThread 7: x\n    step (/a/env.py:42)\n\n"
		    "Thread 8 (traced, holds the GIL): loader\n    step (/a/env.py:42)\n");
}

static void a_full_disk_is_an_error(void **state)
{
	static render_fn *const forms[] = { dump_text__print, dump_text__json };

	for (size_t i = 0; i < 2; i++) {
		struct so_error err = { "" };
		FILE *full = fopen("/dev/full", "w");

		assert_non_null(full);
		assert_int_equal(forms[i](&program_dump, &whole, full, &err), -EIO);
		assert_non_null(strstr(err.text, strerror(ENOSPC)));
		fclose(full);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_read_as_documented),
		cmocka_unit_test(the_head_says_what_it_is),
		cmocka_unit_test(threads_say_what_they_do),
		cmocka_unit_test(the_main_thread_comes_first),
		cmocka_unit_test(native_lines),
		cmocka_unit_test(parts_of_the_program),
		cmocka_unit_test(the_program_as_json),
		cmocka_unit_test(json_of_hostile_names),
		cmocka_unit_test(what_is_left_out_is_said),
		cmocka_unit_test(labels_of_the_daemon),
		cmocka_unit_test(a_full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
