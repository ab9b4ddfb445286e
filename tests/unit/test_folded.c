/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/render/frame_text.h"
#include "client/render/render.h"

static char *fold_part(const struct profile *p, const struct render_options *options)
{
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	assert_int_equal(render__folded(p, options, out, &err), 0);
	assert_false(*err.text);
	fclose(out);
	return text;
}

static char *fold(const struct profile *p, bool threads)
{
	struct render_options options = { .threads = threads };

	return fold_part(p, &options);
}

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

static void frames_read_as_documented(void **state)
{
	static const struct {
		struct profile_line line;
		const char *text;
	} cases[] = {
		{ NATIVE("main", "/usr/bin/x"), "main" },
		{ NATIVE("", "/usr/lib/libfoo.so.1"), "[libfoo.so.1]" },
		{ NATIVE("", "[vdso]"), "[vdso]" },
		{ NATIVE("", "//anon"), "[anon]" },
		{ NATIVE("", "/memfd:x 12 (deleted)"), "[memfd:x 12 (deleted)]" },
		{ NATIVE("", ""), "[unknown]" },
		{ NATIVE("", "/dir/"), "[unknown]" },
		{ NATIVE("  ", " "), "[unknown]" },
		{ NATIVE("[truncated:no-rules]", ""), "[truncated:no-rules]" },
		{ KERNEL("do_syscall_64"), "do_syscall_64_[k]" },
		{ KERNEL("already_[k]"), "already_[k]" },
		{ KERNEL(""), "[unknown]_[k]" },
		{ PYTHON("step", "/app/env.py", 42), "step (env.py:42)" },
		{ PYTHON("<module>", "<string>", 1), "<module> (<string>:1)" },
		{ PYTHON("step", "env.py", 0), "step (env.py)" },
		{ PYTHON("Outer.<locals>.f 3", "/app/x y.py", 7), "Outer.<locals>.f 3 (x y.py:7)" },
		{ PYTHON("[python:stale]", "", 0), "[python:stale]" },
		{ { .function = "f", .filename = "/app/server.js", .mapping = "", .line = 15 }, "f (server.js:15)" },
		{ PYTHON("a;b", "x;y.py", INT64_MAX), "a:b (x:y.py:9223372036854775807)" },
		{ NATIVE("a;b;", ""), "a:b:" },
		{ NATIVE("line\nfeed\ttab\rreturn\x7f", ""), "line?feed?tab?return?" },
		{ NATIVE("esc\x1b[31m csi\xc2\x9b", ""), "esc?[31m csi?" },
		{ NATIVE("caf\xc3\xa9 \xff\xc3", ""), "caf\xc3\xa9 ??" },
		{ NATIVE("  blanks around  ", ""), "blanks around" },
		/* What would be taken for a column, and what would not. */
		{ NATIVE("operator 12", ""), "operator_12" },
		{ NATIVE("operator  12", ""), "operator _12" },
		{ NATIVE("operator 1.5", ""), "operator_1.5" },
		{ NATIVE("operator 1.", ""), "operator_1." },
		{ NATIVE("operator .5", ""), "operator .5" },
		{ NATIVE("operator 1.2.3", ""), "operator 1.2.3" },
		{ NATIVE("operator 12 ", ""), "operator_12" },
		{ NATIVE("operator\t12", ""), "operator?12" },
		{ NATIVE("12", ""), "12" },
		{ NATIVE(" 12", ""), "12" },
		{ NATIVE("f 12a", ""), "f 12a" },
		{ NATIVE("f 1 2", ""), "f 1_2" },
		{ KERNEL("f 12"), "f 12_[k]" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

		assert_int_equal(frame_text__folded(&cases[i].line, false, text), 0);
		assert_int_equal(text->length, strlen(cases[i].text));
		assert_memory_equal(text->bytes, cases[i].text, text->length);
	}
}

static void frames_without_lines(void **state)
{
	static const struct {
		struct profile_line line;
		const char *text;
	} cases[] = {
		{ PYTHON("step", "/app/env.py", 42), "step (env.py)" },
		{ PYTHON("<module>", "<string>", 1), "<module> (<string>)" },
		{ PYTHON("[python:stale]", "", 0), "[python:stale]" },
		{ NATIVE("main", "/usr/bin/x"), "main" },
		{ KERNEL("do_syscall_64"), "do_syscall_64_[k]" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

		assert_int_equal(frame_text__folded(&cases[i].line, true, text), 0);
		assert_int_equal(text->length, strlen(cases[i].text));
		assert_memory_equal(text->bytes, cases[i].text, text->length);
	}
}

static void functions_read_with_their_files(void **state)
{
	static const struct {
		struct profile_line line;
		const char *text;
	} cases[] = {
		{ NATIVE("matmul", "/lib/libblas.so.0"), "matmul (libblas.so.0)" },
		{ NATIVE("matmul", ""), "matmul" },
		{ NATIVE("", "/lib/libblas.so.0"), "[libblas.so.0]" },
		{ NATIVE("", ""), "[unknown]" },
		{ KERNEL("clear_page"), "clear_page (kernel)" },
		{ KERNEL(""), "[unknown] (kernel)" },
		{ PYTHON("step", "/app/env.py", 42), "step (env.py)" },
		{ PYTHON("[python:unreadable]", "", 0), "[python:unreadable]" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

		assert_int_equal(frame_text__function(&cases[i].line, text), 0);
		assert_int_equal(text->length, strlen(cases[i].text));
		assert_memory_equal(text->bytes, cases[i].text, text->length);
	}
}

/* Lines 0 and 3 read the same, though they are different lines of the profile. */
static struct profile_line some_lines[] = {
	NATIVE("leaf", "a"), NATIVE("middle", "a"), NATIVE("root", "a"), NATIVE("leaf", "b"), KERNEL("sys"),
};

static void stacks_are_merged_and_begin_with_the_thread(void **state)
{
	static const uint32_t a[] = { 0, 1, 2 }, b[] = { 3, 1, 2 }, c[] = { 4, 2 };
	struct profile_sample samples[] = {
		{ .lines = a, .n_lines = 3, .count = 5, .pid = 7, .tid = 8, .comm = "my train" },
		{ .lines = b, .n_lines = 3, .count = 6, .pid = 7, .tid = 9, .comm = "my train" },
		{ .lines = c, .n_lines = 2, .count = 1, .pid = 7, .tid = 8, .comm = "my train" },
		{ .lines = c, .n_lines = 2, .count = 0, .pid = 7, .tid = 8, .comm = "never" },
		{ .count = 2, .pid = 7, .comm = "a;b\n" },
		{ .count = 3, .comm = "" },
	};
	struct profile p = { .lines = some_lines, .n_lines = 5, .samples = samples, .n_samples = 6 };
	char *text = fold(&p, false);

	assert_string_equal(text, "[unknown] 3\n"
				  "a:b? 2\n"
				  "my_train;root;middle;leaf 11\n"
				  "my_train;root;sys_[k] 1\n");
	free(text);
	text = fold(&p, true);
	assert_string_equal(text, "[unknown] 3\n"
				  "a:b?-7 2\n"
				  "my_train-7/8;root;middle;leaf 5\n"
				  "my_train-7/8;root;sys_[k] 1\n"
				  "my_train-7/9;root;middle;leaf 6\n");
	free(text);
}

/* Python over native code and the kernel, twice with Python further out; and threads without Python. */
static void parts_of_a_python_profile(void **state)
{
	struct profile_line lines[] = {
		NATIVE("gemm", "/l/blas.so"),    KERNEL("page_fault"),
		PYTHON("step", "/a/env.py", 3),  PYTHON("step", "/a/env.py", 4),
		PYTHON("main", "/a/run.py", 9),  PYTHON("[python:stale]", "", 0),
		NATIVE("[truncated:depth]", ""), NATIVE("start_thread", "/l/libc.so.6")
	};
	static const uint32_t a[] = { 1, 0, 2, 0, 4, 6 }, b[] = { 3, 4, 7 }, c[] = { 1, 7 }, d[] = { 0, 5, 4 };
	struct profile_sample samples[] = {
		{ .lines = a, .n_lines = 6, .count = 1, .comm = "py", .gil = PROFILE_GIL_RELEASED },
		{ .lines = b, .n_lines = 3, .count = 2, .comm = "py", .gil = PROFILE_GIL_HELD },
		{ .lines = c, .n_lines = 2, .count = 4, .comm = "pool" },
		{ .lines = c, .n_lines = 2, .count = 8, .comm = "py", .gil = PROFILE_GIL_HELD },
		{ .lines = d, .n_lines = 3, .count = 16, .comm = "py", .gil = PROFILE_GIL_HELD },
		{ .n_lines = 0, .count = 32, .comm = "py" },
	};
	struct profile p = { .lines = lines, .n_lines = 8, .samples = samples, .n_samples = 6 };
	static const struct {
		struct render_options options;
		const char *text;
	} cases[] = {
		{ { .functions = true },
		  "pool;start_thread;page_fault_[k] 4\n"
		  "py 32\n"
		  "py;[truncated:depth];main (run.py);gemm;step (env.py);gemm;page_fault_[k] 1\n"
		  "py;main (run.py);[python:stale];gemm 16\n"
		  "py;start_thread;main (run.py);step (env.py) 2\n"
		  "py;start_thread;page_fault_[k] 8\n" },
		{ { .python_only = true },
		  "pool;[native] 4\n"
		  "py;[native] 40\n"
		  "py;main (run.py:9);[python:stale] 16\n"
		  "py;main (run.py:9);step (env.py:3) 1\n"
		  "py;main (run.py:9);step (env.py:4) 2\n" },
		{ { .python_only = true, .functions = true },
		  "pool;[native] 4\n"
		  "py;[native] 40\n"
		  "py;main (run.py);[python:stale] 16\n"
		  "py;main (run.py);step (env.py) 3\n" },
		{ { .gil = true },
		  "py;main (run.py:9);[python:stale];gemm 16\n"
		  "py;start_thread;main (run.py:9);step (env.py:4) 2\n"
		  "py;start_thread;page_fault_[k] 8\n" },
		{ { .gil = true, .python_only = true, .functions = true },
		  "py;[native] 8\n"
		  "py;main (run.py);[python:stale] 16\n"
		  "py;main (run.py);step (env.py) 2\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = fold_part(&p, &cases[i].options);

		assert_string_equal(text, cases[i].text);
		free(text);
	}
}

static void nothing_makes_no_line(void **state)
{
	struct profile p = { .n_lines = 0 };
	char *text = fold(&p, false);

	assert_string_equal(text, "");
	free(text);
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * Random stacks of names made to collide: of blanks, digits and each other's prefixes. The lines must be unique, in
 * the order of their bytes, keep the total, and none may show a second column.
 */
static void hostile_names_in_random_stacks(void **state)
{
	enum { LINES = 60, SAMPLES = 300, ROUNDS = 200 };
	static const char alphabet[] = "a 1;.:\x02\xff";
	static char names[LINES][8];
	static struct profile_line lines[LINES];
	static struct profile_sample samples[SAMPLES];
	static uint32_t stacks[SAMPLES][4];
	struct profile p = { .lines = lines, .n_lines = LINES, .samples = samples, .n_samples = SAMPLES };
	regex_t line_form, column;
	unsigned seed = 1;

	assert_int_equal(regcomp(&line_form, "^(.*[^ ]) ([0-9]+)$", REG_EXTENDED), 0);
	assert_int_equal(regcomp(&column, "[[:space:]][0-9]+(\\.[0-9]*)?$", REG_EXTENDED), 0);
	for (int round = 0; round < ROUNDS; round++) {
		char *text, *sorted[SAMPLES], *in_order[SAMPLES], *save = NULL;
		size_t n = 0;
		int64_t total = 0, expected = 0;

		for (int i = 0; i < LINES; i++) {
			int length = rand_r(&seed) % 7;

			memset(names[i], 0, sizeof(names[i]));
			for (int j = 0; j < length; j++)
				names[i][j] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
			lines[i] = (struct profile_line){ .function = names[i],
							  .filename = "",
							  .mapping = "",
							  .python = rand_r(&seed) % 4 == 0 };
		}
		for (int i = 0; i < SAMPLES; i++) {
			samples[i] = (struct profile_sample){ .lines = stacks[i],
							      .n_lines = (size_t)rand_r(&seed) % 4,
							      .count = rand_r(&seed) % 300,
							      .comm = names[rand_r(&seed) % LINES] };
			for (int j = 0; j < 4; j++)
				stacks[i][j] = (uint32_t)rand_r(&seed) % LINES;
			expected += samples[i].count;
		}
		/* A part that keeps all samples must add up like the whole. */
		text = fold_part(&p, &(struct render_options){ .python_only = round % 4 == 1 });
		for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			regmatch_t match[3];

			assert_in_range(n, 0, SAMPLES - 1);
			in_order[n] = sorted[n] = line;
			n++;
			assert_int_equal(regexec(&line_form, line, 3, match, 0), 0);
			total += atoll(line + match[2].rm_so);
		}
		assert_int_equal(total, expected);
		qsort(sorted, n, sizeof(sorted[0]), compare_lines);
		assert_memory_equal(sorted, in_order, n * sizeof(sorted[0]));
		for (size_t i = 0; i < n; i++) {
			*strrchr(in_order[i], ' ') = '\0';
			assert_int_not_equal(regexec(&column, in_order[i], 0, NULL, 0), 0);
			assert_true(!i || strcmp(in_order[i - 1], in_order[i]));
		}
		free(text);
	}
	regfree(&line_form);
	regfree(&column);
}

/* The order where one name begins with another and the count decides. */
static void order_of_prefixes(void **state)
{
	struct profile_line lines[] = { NATIVE("x", ""), NATIVE("x 5y", ""), NATIVE("x!", ""), NATIVE("x<", ""),
					NATIVE("x 3 z", "") };
	static const uint32_t x[] = { 0 }, x5y[] = { 1 }, bang[] = { 2 }, less[] = { 3 }, x3z[] = { 4 },
			      deep[] = { 1, 0 };
	struct profile_sample samples[] = {
		{ .lines = x, .n_lines = 1, .count = 50, .comm = "c" },
		{ .lines = x5y, .n_lines = 1, .count = 1, .comm = "c" },
		{ .lines = bang, .n_lines = 1, .count = 1, .comm = "c" },
		{ .lines = less, .n_lines = 1, .count = 1, .comm = "c" },
		{ .lines = x3z, .n_lines = 1, .count = 1, .comm = "c" },
		{ .lines = deep, .n_lines = 2, .count = 1, .comm = "c" },
	};
	struct profile p = { .lines = lines, .n_lines = 5, .samples = samples, .n_samples = 6 };
	char *text = fold(&p, false);

	assert_string_equal(text, "c;x 3 z 1\nc;x 50\nc;x 5y 1\nc;x! 1\nc;x;x 5y 1\nc;x< 1\n");
	free(text);
}

static void a_full_disk_is_an_error(void **state)
{
	static const uint32_t a[] = { 0 };
	struct profile_sample sample = { .lines = a, .n_lines = 1, .count = 5, .comm = "c" };
	struct profile p = { .lines = some_lines, .n_lines = 5, .samples = &sample, .n_samples = 1 };
	struct so_error err = { "" };
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	assert_int_equal(render__folded(&p, NULL, full, &err), -EIO);
	assert_non_null(strstr(err.text, strerror(ENOSPC)));
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_read_as_documented),
		cmocka_unit_test(frames_without_lines),
		cmocka_unit_test(functions_read_with_their_files),
		cmocka_unit_test(stacks_are_merged_and_begin_with_the_thread),
		cmocka_unit_test(parts_of_a_python_profile),
		cmocka_unit_test(nothing_makes_no_line),
		cmocka_unit_test(hostile_names_in_random_stacks),
		cmocka_unit_test(order_of_prefixes),
		cmocka_unit_test(a_full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
