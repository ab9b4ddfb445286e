/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/render/html_tree.h"
#include "client/render/render.h"
#include "stakeout/utf8.h"
#include "tests/unit/made_profile.h"

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

#define JSON_BEGIN "<script type=\"application/json\" id=\"profile\">"

struct page {
	char *text;
	size_t length;
	json_t *json;
};

static void cleanup__page(struct page *page)
{
	free(page->text);
	json_decref(page->json);
}

static void make_page(const struct profile *p, const struct render_options *options, struct page *page)
{
	struct so_error err = { "" };
	FILE *out = open_memstream(&page->text, &page->length);
	const char *begin, *end;

	assert_non_null(out);
	assert_int_equal(render__html(p, options, out, &err), 0);
	assert_false(*err.text);
	fclose(out);
	assert_int_equal(strlen(page->text), page->length);
	begin = strstr(page->text, JSON_BEGIN);
	assert_non_null(begin);
	begin += strlen(JSON_BEGIN);
	end = strstr(begin, "</script>");
	page->json = json_loadb(begin, (size_t)(end - begin), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(page->json);
}

static int64_t integer(const struct page *page, const char *key)
{
	assert_true(json_is_integer(json_object_get(page->json, key)));
	return json_integer_value(json_object_get(page->json, key));
}

/* The numbers of a member; *n: how many. */
static uint64_t *numbers(const struct page *page, const char *key, size_t *n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const char *text = json_string_value(json_object_get(page->json, key));
	uint64_t *found, number = 0;
	unsigned shift = 0;

	assert_non_null(text);
	found = calloc(strlen(text) + 1, sizeof(*found));
	for (*n = 0; *text; text++) {
		uint64_t digit = (uint64_t)(strchr(digits, *text) - digits);

		assert_true(digit < 64 && shift < 64);
		number |= (digit & 31) << shift;
		shift += 5;
		if (digit < 32) {
			found[(*n)++] = number;
			number = shift = 0;
		}
	}
	assert_int_equal(shift, 0);
	return found;
}

static const char *text_at(const struct page *page, uint64_t number)
{
	const char *text = json_string_value(json_array_get(json_object_get(page->json, "texts"), number));

	assert_non_null(text);
	return text;
}

/* What the page counts in all; each number must lead somewhere. */
static int64_t total(const struct page *page, uint64_t *merged, size_t *n_nodes)
{
	size_t n_frames, n_numbers, n_values, n_threads;
	_cleanup_free_ uint64_t *frames = numbers(page, "frames", &n_frames);
	_cleanup_free_ uint64_t *nodes = numbers(page, "nodes", &n_numbers);
	_cleanup_free_ uint64_t *values = numbers(page, "values", &n_values);
	_cleanup_free_ uint64_t *threads = numbers(page, "threads", &n_threads);
	uint64_t depth = 0, node = 0;
	int64_t sum = 0;

	*merged = 0;
	*n_nodes = 1;
	for (size_t i = 0; i < n_numbers; ++*n_nodes) {
		assert_in_range(nodes[i], 0, depth);
		depth = depth + 1 - nodes[i++];
		assert_true(nodes[i] < n_frames / 5 + 2);
		if (nodes[i++] < 2)
			*merged += nodes[i++];
	}
	for (size_t i = 0; i < n_values; i += 3) {
		node += values[i];
		assert_true(node < *n_nodes && values[i + 1] < n_threads / 5);
		assert_true(values[i + 2] > 0);
		sum += (int64_t)values[i + 2];
	}
	return sum;
}

static int64_t whole(const struct page *page)
{
	uint64_t merged;
	size_t n;

	return total(page, &merged, &n);
}

/* The name of a frame, and numbers beside it, by its place in the table. */
static void assert_frame(const struct page *page, size_t at, const char *name, const char *file, uint64_t line,
			 enum html_kind kind)
{
	size_t n;
	_cleanup_free_ uint64_t *frames = numbers(page, "frames", &n);

	assert_true(at * 5 < n);
	assert_string_equal(text_at(page, frames[at * 5]), name);
	assert_string_equal(text_at(page, frames[at * 5 + 1]), file);
	assert_int_equal(frames[at * 5 + 3], line);
	assert_int_equal(frames[at * 5 + 4], kind);
}

static struct profile_line some_lines[] = {
	PYTHON("step", "/app/env.py", 42),
	PYTHON("step", "/app/env.py", 43),
	NATIVE("matmul", "/usr/lib/libblas.so.3"),
	KERNEL("do_syscall_64"),
	NATIVE("cudaLaunchKernel", "/app/train"),
	NATIVE("", "/usr/lib/libcudart.so.12"),
	NATIVE("custom", "/app/x.so"),
};
static const uint32_t stack_a[] = { 3, 2, 0 }, stack_b[] = { 4, 1 }, stack_c[] = { 5 }, stack_d[] = { 6 };
static struct profile_sample some_samples[] = {
	{ .lines = stack_a, .n_lines = 3, .count = 5, .pid = 7, .tid = 7, .comm = "train", .gil = PROFILE_GIL_HELD },
	{ .lines = stack_b, .n_lines = 2, .count = 6, .pid = 7, .tid = 8, .comm = "train", .state = "gpu" },
	{ .lines = stack_b, .n_lines = 2, .count = 9, .pid = 7, .tid = 8, .comm = "train", .state = "gpu" },
	{ .lines = stack_c, .n_lines = 1, .count = 2, .pid = 8, .tid = 9, .comm = "other" },
	{ .lines = stack_d, .n_lines = 1, .count = 0, .pid = 8, .tid = 9, .comm = "never" },
	{ .count = 3, .comm = "" },
};
static const char *some_comments[] = { "stakeout.pid=7", "stakeout.lost.map=2", "of another tool" };
static const struct profile some_profile = { .lines = some_lines,
					     .n_lines = 7,
					     .samples = some_samples,
					     .n_samples = 6,
					     .observation = 1,
					     .comments = some_comments,
					     .n_comments = 3 };

static void a_page_has_all_of_a_profile(void **state)
{
	_cleanup_(page) struct page page = { 0 };
	uint64_t merged;
	size_t n, nodes;
	_cleanup_free_ uint64_t *values = NULL, *threads = NULL;

	make_page(&some_profile, NULL, &page);
	assert_int_equal(total(&page, &merged, &nodes), 25);
	assert_int_equal(integer(&page, "total"), 25);
	assert_int_equal(merged, 0);
	assert_int_equal(integer(&page, "merged"), 0);
	assert_int_equal(nodes, 7); /* the root, 3 + 2 + 1 frames */
	/* Equal places of one thread are one. */
	values = numbers(&page, "values", &n);
	assert_int_equal(n, 4 * 3);
	threads = numbers(&page, "threads", &n);
	assert_int_equal(n, 4 * 5);
	assert_string_equal(text_at(&page, threads[5 + 3]), "gpu");
	assert_string_equal(text_at(&page, threads[15 + 2]), "[unknown]");
	assert_frame(&page, 0, "step", "/app/env.py", 42, HTML_PYTHON);
	assert_frame(&page, 1, "matmul", "", 0, HTML_NATIVE);
	assert_frame(&page, 2, "do_syscall_64", "", 0, HTML_KERNEL);
	assert_frame(&page, 3, "step", "/app/env.py", 43, HTML_PYTHON);
	assert_frame(&page, 4, "cudaLaunchKernel", "", 0, HTML_CUDA);
	assert_frame(&page, 5, "[libcudart.so.12]", "", 0, HTML_CUDA);
	assert_int_equal(json_array_size(json_object_get(page.json, "comments")), 2);
	assert_string_equal(json_string_value(json_array_get(json_object_get(page.json, "comments"), 1)), "lost.map=2");
}

static void options_choose_a_part(void **state)
{
	const struct render_options functions = { .functions = true }, python = { .python_only = true },
				    gil = { .gil = true }, only = { .only = { { "pid=8" }, 1 } };
	_cleanup_(page) struct page a = { 0 };
	_cleanup_(page) struct page b = { 0 };
	_cleanup_(page) struct page c = { 0 };
	_cleanup_(page) struct page d = { 0 };

	make_page(&some_profile, &functions, &a);
	assert_int_equal(whole(&a), 25);
	assert_frame(&a, 0, "step", "/app/env.py", 0, HTML_PYTHON);
	make_page(&some_profile, &python, &b);
	assert_int_equal(whole(&b), 25);
	assert_frame(&b, 2, PROFILE_NATIVE, "", 0, HTML_NATIVE);
	make_page(&some_profile, &gil, &c);
	assert_int_equal(whole(&c), 5);
	assert_int_equal(integer(&c, "total"), 5);
	assert_int_equal(json_array_size(json_object_get(c.json, "part")), 1);
	make_page(&some_profile, &only, &d);
	assert_int_equal(whole(&d), 2);
	assert_string_equal(json_string_value(json_array_get(json_object_get(d.json, "part"), 1)), "pid=8");
}

/* Of bytes and calls it is not known how many were seen: no interval, and no time. */
static void another_value_is_named(void **state)
{
	const struct render_options options = { .value = "bytes" };
	_cleanup_(page) struct page page = { 0 };
	_cleanup_(page) struct page samples = { 0 };

	make_page(&some_profile, &options, &page);
	assert_string_equal(json_string_value(json_object_get(page.json, "value")), "bytes");
	assert_true(json_number_value(json_object_get(page.json, "observation")) == 0);
	make_page(&some_profile, NULL, &samples);
	assert_string_equal(json_string_value(json_object_get(samples.json, "value")), "");
	assert_true(json_number_value(json_object_get(samples.json, "observation")) == 1);
}

static size_t occurrences(const char *text, const char *word)
{
	size_t n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

static void assert_utf8(const struct page *page)
{
	for (size_t at = 0, n; at < page->length; at += n) {
		n = utf8__sequence(page->text + at, page->length - at);
		assert_int_not_equal(n, 0);
	}
}

/* Whatever is called so cannot leave the JSON, and comes out as it went in. */
static void foreign_names_are_data(void **state)
{
	static const struct {
		const char *name, *text;
	} cases[] = {
		{ "</script><script>alert(1)</script>", "</script><script>alert(1)</script>" },
		{ "<!--<script>", "<!--<script>" },
		{ "a\xe2\x80\xa8"
		  "b\xe2\x80\xa9"
		  "c",
		  "a\xe2\x80\xa8"
		  "b\xe2\x80\xa9"
		  "c" },
		{ "q\"u'o\\t&e", "q\"u'o\\t&e" },
		{ "invalid \xff\xc3 end", "invalid ?? end" },
		{ "cut \xe2\x80", "cut ??" },
		{ "line\nfeed\x1b[31m", "line?feed?[31m" },
		{ "@PROFILE@", "@PROFILE@" },
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
	};
	_cleanup_(page) struct page plain = { 0 };

	make_page(&some_profile, NULL, &plain);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile_line line = PYTHON(cases[i].name, cases[i].name, 3);
		const char *comment = cases[i].name;
		uint32_t lines[] = { 0 };
		struct profile_sample sample = {
			.lines = lines, .n_lines = 1, .count = 4, .comm = cases[i].name, .state = cases[i].name
		};
		struct profile p = { .lines = &line,
				     .n_lines = 1,
				     .samples = &sample,
				     .n_samples = 1,
				     .observation = 1,
				     .comments = &comment,
				     .n_comments = 1 };
		_cleanup_(page) struct page page = { 0 };

		make_page(&p, NULL, &page);
		assert_utf8(&page);
		assert_frame(&page, 0, cases[i].text, cases[i].text, 3, HTML_PYTHON);
		assert_int_equal(occurrences(page.text, "</script"), occurrences(plain.text, "</script"));
		assert_int_equal(occurrences(page.text, "<!--"), occurrences(plain.text, "<!--"));
		assert_int_equal(occurrences(page.text, "\xe2\x80\xa8"), 0);
	}
}

static void a_page_asks_for_nothing(void **state)
{
	_cleanup_(page) struct page page = { 0 };

	make_page(&some_profile, NULL, &page);
	assert_int_equal(occurrences(page.text, "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"),
			 1);
	assert_int_equal(occurrences(page.text, "http:") + occurrences(page.text, "https:"), 0);
	assert_int_equal(occurrences(page.text, " src=") + occurrences(page.text, "@import"), 0);
	assert_int_equal(occurrences(page.text, "innerHTML") + occurrences(page.text, "eval("), 0);
}

static void a_large_profile_is_cut_to_size(void **state)
{
	struct made_profile wanted = MADE_PROFILE_TRAINING;
	_cleanup_(profile) struct profile *p = NULL;
	_cleanup_(page) struct page page = { 0 };
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t samples, merged;
	size_t length, nodes;

	wanted.stacks = 11000; /* some of them are the same */
	samples = made_profile__make(&wanted, &bytes, &length);
	assert_int_equal(profile__read(bytes, length, &p, NULL), 0);
	assert_true(p->n_samples >= 10000);
	make_page(p, NULL, &page);
	assert_in_range(page.length, RENDER_HTML_BYTES * 9 / 10, RENDER_HTML_BYTES);
	assert_int_equal(total(&page, &merged, &nodes), samples);
	assert_true(merged > 0 && nodes > 5000);
	assert_int_equal(integer(&page, "merged"), merged);
	assert_in_range(integer(&page, "merged_value"), 1, samples);
}

/* As many threads and long names as a foreign file may have. */
static void threads_and_names_are_bounded(void **state)
{
	enum { THREADS = 5000, NAMES = 2000, NAME = 3000 };
	_cleanup_free_ struct profile_sample *samples = calloc(THREADS, sizeof(*samples));
	_cleanup_free_ struct profile_line *lines = calloc(NAMES, sizeof(*lines));
	_cleanup_free_ uint32_t *numbers_of_lines = calloc(NAMES, sizeof(*numbers_of_lines));
	_cleanup_free_ char *names = calloc(NAMES, NAME);
	struct profile p = {
		.lines = lines, .n_lines = NAMES, .samples = samples, .n_samples = THREADS, .observation = 1
	};
	_cleanup_(page) struct page page = { 0 };

	for (uint32_t i = 0; i < NAMES; i++) {
		char *name = names + (size_t)i * NAME;

		for (size_t at = (size_t)snprintf(name, NAME, "f%u", i); at + 4 < NAME; at += 3)
			memcpy(name + at, "\xe2\x82\xac", 4);
		lines[i] = (struct profile_line)NATIVE(name, "");
		numbers_of_lines[i] = i;
	}
	for (uint32_t i = 0; i < THREADS; i++)
		samples[i] = (struct profile_sample){ .lines = &numbers_of_lines[i % NAMES],
						      .n_lines = 1,
						      .count = 1,
						      .pid = 1,
						      .tid = i + 1,
						      .comm = "x",
						      .state = "lock" };
	make_page(&p, NULL, &page);
	assert_utf8(&page);
	assert_in_range(page.length, 1, RENDER_HTML_BYTES);
	assert_int_equal(whole(&page), THREADS);
	assert_non_null(strstr(page.text, "(further threads)"));
}

static void a_full_disk_is_an_error(void **state)
{
	struct so_error err = { "" };
	FILE *full = fopen("/dev/full", "w");

	assert_int_equal(render__html(&some_profile, NULL, full, &err), -EIO);
	assert_non_null(strstr(err.text, "cannot write the flame graph: No space left"));
	fclose(full);
}

static void an_empty_profile_makes_a_page(void **state)
{
	const struct profile p = { .observation = 1 };
	_cleanup_(page) struct page page = { 0 };

	make_page(&p, NULL, &page);
	assert_int_equal(whole(&page), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_has_all_of_a_profile),   cmocka_unit_test(options_choose_a_part),
		cmocka_unit_test(another_value_is_named),        cmocka_unit_test(foreign_names_are_data),
		cmocka_unit_test(a_page_asks_for_nothing),       cmocka_unit_test(a_large_profile_is_cut_to_size),
		cmocka_unit_test(threads_and_names_are_bounded), cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(an_empty_profile_makes_a_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
