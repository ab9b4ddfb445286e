// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout top: what is added up, which rows come of it and in which order, what keys change, and what is drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/top/top_cuda.h"
#include "client/top/top_draw.h"
#include "client/top/top_rows.h"
#include "client/top/top_sums.h"
#include "client/top/top_text.h"
#include "client/top/top_view.h"

#define MS 1000000

enum {
	FUTEX,
	WAIT,
	COMPUTE,
	MAIN,
	CONSUME,
	HOSTILE,
};

static struct profile_line lines[] = {
	[FUTEX] = { .function = "futex_do_wait", .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true },
	[WAIT] = { .function = "Condition.wait",
		   .filename = "/usr/lib/python3.11/threading.py",
		   .mapping = "",
		   .line = 320,
		   .python = true },
	[COMPUTE] = { .function = "compute", .filename = "/app/main.py", .mapping = "", .line = 7, .python = true },
	[MAIN] = { .function = "main", .filename = "/app/main.py", .mapping = "", .line = 20, .python = true },
	[CONSUME] = { .function = "consume", .filename = "/app/main.py", .mapping = "", .line = 12, .python = true },
	[HOSTILE] = { .function = "\033[2Jevil\xff\xe2\x80\xae\xe6\xbc\xa2",
		      .filename = "/app/main.py",
		      .mapping = "",
		      .line = 1,
		      .python = true },
};

#define STACK(...) \
	.lines = (const uint32_t[]){ __VA_ARGS__ }, .n_lines = sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)
#define SAMPLE(process, thread, name, what, ms, ...)                                                                 \
	{                                                                                                            \
		STACK(__VA_ARGS__), .count = (ms)*1000, .value_ns = (int64_t)(ms)*MS, .pid = process, .tid = thread, \
				    .comm = name, .state = what                                                      \
	}

static const char *comments[] = { "stakeout.complete=8", "stakeout.truncated.depth=2", "stakeout.lost.map=3" };

/* A main thread that computes, one that waits, and a child whose thread was found runnable for a while. */
static struct profile make_profile(struct profile_sample *samples, size_t n)
{
	return (struct profile){ .lines = lines,
				 .n_lines = sizeof(lines) / sizeof(lines[0]),
				 .samples = samples,
				 .n_samples = n,
				 .duration_ns = 1000 * MS,
				 .wall = true,
				 .comments = comments,
				 .n_comments = 3 };
}

static struct profile_sample first[] = {
	SAMPLE(10, 10, "main", "running", 600, COMPUTE, MAIN),
	SAMPLE(10, 10, "main", "running", 300, MAIN),
	SAMPLE(10, 10, "main", "runnable", 100, MAIN),
	SAMPLE(10, 11, "worker", "lock", 1000, FUTEX, WAIT, CONSUME),
	SAMPLE(20, 20, "child", "idle", 1000, FUTEX, WAIT),
};

static struct profile_sample second[] = {
	SAMPLE(10, 10, "main", "running", 200, COMPUTE, MAIN),
	SAMPLE(10, 10, "main", "sleep", 800, FUTEX, CONSUME),
	SAMPLE(10, 11, "worker", "running", 1000, CONSUME),
	SAMPLE(20, 20, "child", "idle", 1000, FUTEX, WAIT),
};

/* first is the newest. */
static void add_both(struct top_sums *sums)
{
	struct profile newest = make_profile(first, 5), older = make_profile(second, 4);

	assert_int_equal(top_sums__add(sums, &newest, true), 0);
	assert_int_equal(top_sums__add(sums, &older, false), 0);
	sums->duration_ns = 2000 * MS;
}

static struct process_entry entries[] = { { .pid = 10, .ppid = 1, .comm = "python3" },
					  { .pid = 15, .ppid = 10, .comm = "sh" },
					  { .pid = 20, .ppid = 15, .comm = "kid" } };
static const struct process_list processes = { .entries = entries, .n = 3 };

static const char *text_of(const struct intern *texts, uint32_t number)
{
	static char text[256];

	snprintf(text, sizeof(text), "%.*s", (int)intern__length(texts, number),
		 (const char *)intern__key(texts, number));
	return text;
}

static const double *ns_of(const struct top_names *names, const char *name)
{
	uint32_t number = 0;

	assert_true(intern__find(&names->texts, name, strlen(name), &number));
	return names->ns[number];
}

static void time_is_added_up(void **state)
{
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };
	double all = 0;

	add_both(&sums);
	assert_int_equal(sums.ids.n_keys, 3);
	for (unsigned i = 0; i < TOP_PARTS; i++)
		all += sums.ns[i];
	/* Each of three threads had both seconds. */
	assert_float_equal(all, 6000.0 * MS, 1);
	assert_float_equal(sums.threads[0].ns[TOP_RUNNING], 1100.0 * MS, 1);
	assert_float_equal(sums.threads[0].ns[TOP_RUNNABLE], 100.0 * MS, 1);
	assert_float_equal(sums.threads[0].ns[TOP_WAITING], 800.0 * MS, 1);
	assert_float_equal(ns_of(&sums.functions, "compute (main.py)")[TOP_SELF], 800.0 * MS, 1);
	assert_float_equal(ns_of(&sums.functions, "main (main.py)")[TOP_SELF], 300.0 * MS, 1);
	assert_float_equal(ns_of(&sums.functions, "main (main.py)")[TOP_TOTAL], 1100.0 * MS, 1);
	/* Waiting for something to do is none. */
	assert_float_equal(ns_of(&sums.functions, "futex_do_wait (kernel)")[TOP_WAITS], 1800.0 * MS, 1);
	assert_float_equal(ns_of(&sums.lines, "consume (main.py:12)")[TOP_WAITS], 1800.0 * MS, 1);
	assert_float_equal(ns_of(&sums.lines, "consume (main.py:12)")[TOP_SELF], 1000.0 * MS, 1);
	assert_float_equal(sums.complete, 16, 0);
	assert_float_equal(sums.truncated, 4, 0);
	assert_float_equal(sums.lost, 6, 0);
}

static void a_thread_is_where_it_was_last(void **state)
{
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };

	add_both(&sums);
	assert_string_equal(text_of(&sums.texts, sums.threads[0].state), "running");
	assert_string_equal(text_of(&sums.texts, sums.threads[0].line), "compute (main.py:7)");
	assert_string_equal(text_of(&sums.texts, sums.threads[1].state), "lock");
	assert_string_equal(text_of(&sums.texts, sums.threads[1].line), "consume (main.py:12)");
}

static const struct top_memory no_memory = { .n = 0 };

static void make_rows(const struct top_view *view, struct top_rows *rows)
{
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };

	add_both(&sums);
	assert_int_equal(top_rows__of(&sums, &processes, &no_memory, view, rows), 0);
}

static void assert_row(const struct top_rows *rows, size_t i, unsigned depth, int64_t id, const char *begin)
{
	const struct top_row *row = &rows->list[i];

	assert_true(i < rows->n);
	assert_int_equal(row->depth, depth);
	assert_int_equal(row->tid ?: row->pid, id);
	assert_true(row->text.length >= strlen(begin));
	assert_memory_equal(row->text.bytes, begin, strlen(begin));
}

static void threads_are_a_tree(void **state)
{
	_cleanup_(top_rows) struct top_rows rows = { .n = 0 };
	struct top_view view = { .table = TOP_THREADS };

	make_rows(&view, &rows);
	assert_int_equal(rows.n, 5);
	assert_row(&rows, 0, 0, 10, "python3");
	assert_row(&rows, 1, 1, 10, "main  running in compute (main.py:7)");
	assert_row(&rows, 2, 1, 11, "worker  lock in consume (main.py:12)");
	/* Its parent has no threads here: it stands below whose child that is. */
	assert_row(&rows, 3, 1, 20, "kid");
	assert_row(&rows, 4, 2, 20, "child  idle");
	assert_float_equal(rows.list[0].ns[TOP_RUNNING], 2100.0 * MS, 1);
}

/* Two processes that are each other's parents, as no moment had it. */
static void a_circle_of_parents_ends(void **state)
{
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };
	_cleanup_(top_rows) struct top_rows rows = { .n = 0 };
	struct process_entry circle[] = { { .pid = 10, .ppid = 20 }, { .pid = 20, .ppid = 10 } };
	const struct process_list list = { .entries = circle, .n = 2 };
	const struct top_view view = { .table = TOP_THREADS };

	add_both(&sums);
	assert_int_equal(top_rows__of(&sums, &list, &no_memory, &view, &rows), 0);
	assert_int_equal(rows.n, 5);
}

static void rows_are_sorted(void **state)
{
	struct top_view view = { .table = TOP_FUNCTIONS };
	static const char *const firsts[TOP_SORTS] = { "consume (main.py)", "main (main.py)", "consume (main.py)",
						       "Condition.wait (threading.py)" };

	for (unsigned i = 0; i < TOP_SORTS; i++) {
		_cleanup_(top_rows) struct top_rows rows = { .n = 0 };

		view.sort[TOP_FUNCTIONS] = i;
		make_rows(&view, &rows);
		assert_row(&rows, 0, 0, 0, firsts[i]);
		for (size_t k = 1; k < rows.n && i < TOP_COLUMNS; k++)
			assert_true(rows.list[k - 1].ns[i] >= rows.list[k].ns[i]);
	}
	view.table = TOP_THREADS;
	for (unsigned i = 0; i < TOP_SORTS; i++) {
		_cleanup_(top_rows) struct top_rows rows = { .n = 0 };

		view.sort[TOP_THREADS] = i;
		make_rows(&view, &rows);
		assert_int_equal(rows.list[1].tid, i == TOP_WAITING ? 11 : 10);
	}
}

static void rows_are_filtered(void **state)
{
	_cleanup_(top_rows) struct top_rows rows = { .n = 0 }, none = { .n = 0 }, by_id = { .n = 0 };
	struct top_view view = { .table = TOP_THREADS, .filter = "CHILD" };

	make_rows(&view, &rows);
	/* With the processes above it. */
	assert_int_equal(rows.n, 3);
	assert_row(&rows, 0, 0, 10, "python3");
	assert_row(&rows, 1, 1, 20, "kid");
	assert_row(&rows, 2, 2, 20, "child");
	strcpy(view.filter, "nowhere");
	make_rows(&view, &none);
	assert_int_equal(none.n, 0);
	strcpy(view.filter, "11");
	make_rows(&view, &by_id);
	assert_int_equal(by_id.n, 2);
	assert_row(&by_id, 1, 1, 11, "worker");
}

static void press(struct top_view *view, const char *keys)
{
	size_t n = strlen(keys), used;

	for (; n; keys += used, n -= used)
		assert_true(top_view__take(view, top_key__read(keys, n, &used), 10));
}

static void keys_change_the_view(void **state)
{
	struct top_view view = { .table = TOP_THREADS };
	size_t used;

	press(&view, "f");
	assert_int_equal(view.table, TOP_FUNCTIONS);
	press(&view, "ss");
	assert_int_equal(view.sort[TOP_FUNCTIONS], 2);
	press(&view, "ss");
	assert_int_equal(view.sort[TOP_FUNCTIONS], 0);
	press(&view, "l");
	assert_int_equal(view.table, TOP_LINES);
	press(&view, "\033[B\033[B\033[6~");
	assert_int_equal(view.scroll[TOP_LINES], 2 + 9);
	press(&view, "\033OA");
	assert_int_equal(view.scroll[TOP_LINES], 10);
	top_view__clamp(&view, 12, 10);
	assert_int_equal(view.scroll[TOP_LINES], 2);
	top_view__clamp(&view, 5, 10);
	assert_int_equal(view.scroll[TOP_LINES], 0);
	press(&view, "\033[A\033[5~");
	assert_int_equal(view.scroll[TOP_LINES], 0);
	press(&view, "\033[F");
	top_view__clamp(&view, 100, 10);
	assert_int_equal(view.scroll[TOP_LINES], 90);
	press(&view, " ");
	assert_true(view.frozen);
	press(&view, "?");
	assert_true(view.help);
	/* Any key leaves the help, and does nothing else. */
	press(&view, "t");
	assert_false(view.help);
	assert_int_equal(view.table, TOP_LINES);
	assert_false(top_view__take(&view, top_key__read("q", 1, &used), 10));
}

static void a_filter_is_typed(void **state)
{
	struct top_view view = { .table = TOP_LINES };
	char much[2 * TOP_FILTER_BYTES];

	press(&view, "/qt\xe6\xbc\xa2\x7f\xc3\xa4x\x7f\r");
	assert_string_equal(view.filter, "qt\xc3\xa4");
	assert_false(view.typing);
	assert_int_equal(view.table, TOP_LINES);
	press(&view, "/\x01\xff\xc2\x9b\033[B\033");
	assert_string_equal(view.filter, "");
	assert_false(view.typing);
	memset(much, 'a', sizeof(much));
	much[0] = '/';
	much[sizeof(much) - 1] = '\0';
	press(&view, much);
	assert_int_equal(strlen(view.filter), TOP_FILTER_BYTES - 1);
}

static size_t fit(const char *text, size_t columns, enum top_cut cut, char out[256])
{
	FILE *file = fmemopen(out, 256, "w");
	size_t wide = top_text__fit(text, strlen(text), columns, cut, file);

	fputc('\0', file);
	fclose(file);
	return wide;
}

static void text_fits_into_columns(void **state)
{
	char out[256];

	assert_int_equal(fit("abcdef", 6, TOP_CUT_END, out), 6);
	assert_string_equal(out, "abcdef");
	assert_int_equal(fit("abcdef", 5, TOP_CUT_END, out), 5);
	assert_string_equal(out, "abcd…");
	assert_int_equal(fit("abcdefghijkl", 9, TOP_CUT_MIDDLE, out), 9);
	assert_string_equal(out, "abcde…jkl");
	/* Two columns each: half of one is none. */
	assert_int_equal(fit("漢漢漢", 6, TOP_CUT_END, out), 6);
	assert_int_equal(fit("漢漢漢", 4, TOP_CUT_END, out), 3);
	assert_string_equal(out, "漢…");
	assert_true(fit("漢漢漢漢", 7, TOP_CUT_MIDDLE, out) <= 7);
	/* A mark on a letter takes none. */
	assert_int_equal(fit("e\xcc\x81x", 2, TOP_CUT_END, out), 2);
	assert_string_equal(out, "e\xcc\x81x");
	assert_int_equal(fit("a\033[2J\x07\xff\xc2\x9b\xe2\x80\xae", 80, TOP_CUT_END, out), 9);
	assert_string_equal(out, "a?[2J????");
	assert_int_equal(fit("abc", 0, TOP_CUT_MIDDLE, out), 0);
}

static char *draw_with(struct top_view *view, const struct top_sums *sums, const struct top_memory *memory,
		       unsigned width, unsigned height, bool terminal)
{
	const struct top_screen screen = { .sums = sums,
					   .title = "10  python3\033]0;x\x07 main.py",
					   .watched_s = 3,
					   .width = width,
					   .height = height,
					   .terminal = terminal };
	_cleanup_(top_rows) struct top_rows rows = { .n = 0 };
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	assert_int_equal(top_rows__of(sums, &processes, memory, view, &rows), 0);
	top_draw(&screen, &rows, view, out);
	fclose(out);
	return text;
}

static char *draw(struct top_view *view, const struct top_sums *sums, unsigned width, unsigned height, bool terminal)
{
	return draw_with(view, sums, &no_memory, width, height, terminal);
}

static void a_screen_is_drawn(void **state)
{
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };
	struct top_view view = { .table = TOP_THREADS };
	char *text;

	add_both(&sums);
	text = draw(&view, &sums, 80, 0, false);
	assert_non_null(strstr(text, "stakeout top   10  python3?]0;x? main.py\n"));
	assert_non_null(
		strstr(text, "last 2.0 s: CPU 105.0 %, 20 samples, complete 80.0 %, lost 6, watched for 3 s\n"));
	assert_non_null(strstr(text, "   105.0       5.0     90.0  10 python3\n"));
	assert_non_null(strstr(text, "    55.0       5.0     40.0    10 main  running in compute (main.py:7)\n"));
	assert_non_null(strstr(text, "     0.0       0.0    100.0      20 child  idle in Condition.wait"));
	free(text);
	/* Where it is has more of the room than what it is called. */
	text = draw(&view, &sums, 60, 0, false);
	assert_non_null(strstr(text, "    11 worker  lock in con…py:12)\n"));
	free(text);
}

/* In no size is there more than fits, and from a name comes nothing that steers the terminal. */
static void a_screen_fits_its_terminal(void **state)
{
	struct profile_sample hostile[] = { SAMPLE(10, 10, "\033[31mred\n", "running", 900, HOSTILE) };
	static const unsigned sizes[][2] = { { 80, 24 }, { 200, 50 }, { 20, 5 }, { 1, 1 }, { 80, 6 } };
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };
	struct profile more = make_profile(hostile, 1);

	add_both(&sums);
	assert_int_equal(top_sums__add(&sums, &more, true), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * TOP_TABLES * 2; i++) {
		const unsigned *size = sizes[i / TOP_TABLES / 2];
		struct top_view view = { .table = i / 2 % TOP_TABLES, .help = i % 2 };
		char *text = draw(&view, &sums, size[0], size[1], true), *at = text;
		size_t lines_drawn = 1;

		for (; *at; at++) {
			lines_drawn += *at == '\n';
			if (*at == '\033') {
				assert_int_equal(at[1], '[');
				at += 2 + strspn(at + 2, "0123456789");
				/* A style, the first line, the rest of a line or of the screen. */
				assert_non_null(strchr("mHKJ", *at));
				continue;
			}
			assert_true((unsigned char)*at >= ' ' || *at == '\r' || *at == '\n');
			assert_int_not_equal((unsigned char)*at, 0xff);
		}
		assert_true(lines_drawn <= size[1]);
		assert_null(strstr(text, "\xe2\x80\xae"));
		free(text);
	}
}

/* Once a second: process 10 stays as it is, and 20, which has less, grows by a megabyte. */
static void take_memory(struct top_memory *memory, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		assert_int_equal(top_memory__add(memory, 10, 500e6, 1000 + i), 0);
		assert_int_equal(top_memory__add(memory, 20, 100e6 + 1e6 * i + 1000 * (i % 3), 1000 + i), 0);
	}
}

static void memory_is_judged(void **state)
{
	_cleanup_(top_memory) struct top_memory memory = { .n = 0 };
	const struct top_memory_process *p;

	take_memory(&memory, 0, 3);
	assert_false(top_memory__find(&memory, 20)->rate_known);
	assert_null(top_memory__find(&memory, 11));
	take_memory(&memory, 3, 200);
	p = top_memory__find(&memory, 20);
	assert_int_equal(p->n, TOP_MEMORY_READINGS);
	assert_true(p->rate_known && p->rate > 0.99e6 && p->rate < 1.01e6);
	assert_float_equal(p->own, 100e6 + 199e6 + 1000, 0);
	p = top_memory__find(&memory, 10);
	assert_true(p->rate_known && p->rate == 0);
}

/* Of real processes: this one has memory of its own, and there is none with such a number. */
static void memory_is_read(void **state)
{
	struct profile_sample samples[] = { SAMPLE(getpid(), 1, "me", "running", 9, COMPUTE),
					    SAMPLE(getpid(), 2, "me", "running", 9, COMPUTE),
					    SAMPLE(2000000000, 3, "none", "running", 9, COMPUTE) };
	_cleanup_(top_memory) struct top_memory memory = { .n = 0 };
	_cleanup_(top_sums) struct top_sums sums = { .wall = false }, none = { .wall = false };
	struct profile profile = make_profile(samples, 3);

	assert_int_equal(top_sums__add(&sums, &profile, true), 0);
	assert_int_equal(top_memory__take(&memory, &sums, 1), 0);
	assert_int_equal(top_memory__take(&memory, &sums, 2), 0);
	assert_int_equal(memory.n, 1);
	assert_int_equal(memory.list[0].n, 2);
	assert_true(memory.list[0].own > 1e4);
	assert_int_equal(top_memory__take(&memory, &none, 3), 0);
	assert_int_equal(memory.n, 0);
}

/* Beside the others where there is room, and where it is asked for. */
static void memory_is_drawn(void **state)
{
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };
	_cleanup_(top_memory) struct top_memory memory = { .n = 0 };
	struct top_view view = { .table = TOP_THREADS };
	char *text;

	add_both(&sums);
	take_memory(&memory, 0, 3);
	text = draw_with(&view, &sums, &memory, 100, 0, false);
	assert_non_null(strstr(text, "waiting        MB   MB/min  process"));
	assert_non_null(strstr(text, "   105.0       5.0     90.0     500.0        -  10 python3\n"));
	assert_non_null(strstr(text, "    55.0       5.0     40.0                       10 main  running in comp"));
	free(text);
	take_memory(&memory, 3, 20);
	text = draw_with(&view, &sums, &memory, 99, 0, false);
	assert_null(strstr(text, "MB"));
	free(text);
	press(&view, "m");
	text = draw_with(&view, &sums, &memory, 80, 0, false);
	assert_non_null(strstr(text, "threads by MB, "));
	assert_non_null(strstr(text, "waiting       *MB   MB/min  process"));
	assert_non_null(strstr(text, "     500.0     +0.0  10 python3\n"));
	assert_non_null(strstr(text, "     119.0    +60.0    20 kid\n"));
	free(text);
	text = draw_with(&view, &sums, &memory, 59, 0, false);
	assert_null(strstr(text, "*MB"));
	free(text);
	/* There is none of functions. */
	view.table = TOP_FUNCTIONS;
	text = draw_with(&view, &sums, &memory, 160, 0, false);
	assert_null(strstr(text, "MB"));
	free(text);
}

static void m_sorts_by_memory(void **state)
{
	struct process_entry apart[] = { { .pid = 10, .ppid = 1 }, { .pid = 20, .ppid = 1 } };
	const struct process_list list = { .entries = apart, .n = 2 };
	_cleanup_(top_sums) struct top_sums sums = { .wall = false };
	_cleanup_(top_memory) struct top_memory memory = { .n = 0 };
	struct top_view view = { .table = TOP_LINES };

	add_both(&sums);
	take_memory(&memory, 0, 20);
	for (unsigned i = 0; i < 3; i++) {
		_cleanup_(top_rows) struct top_rows rows = { .n = 0 };

		press(&view, "m");
		assert_int_equal(view.table, TOP_THREADS);
		assert_int_equal(view.sort[TOP_THREADS], i == 1 ? TOP_BY_GROWTH : TOP_BY_MEMORY);
		assert_int_equal(top_rows__of(&sums, &list, &memory, &view, &rows), 0);
		assert_int_equal(rows.list[0].pid, i == 1 ? 20 : 10);
		/* Threads of a process are by what they run. */
		assert_int_equal(rows.list[i == 1 ? 3 : 1].tid, 10);
	}
	press(&view, "s");
	assert_int_equal(view.sort[TOP_THREADS], TOP_RUNNING);
}

static void take_cuda(struct top_cuda *cuda, int launches, int syncs, int waits_ms, double now_s)
{
	json_auto_t *answer = json_pack(
		"{s:i, s:b, s:[{s:s, s:s, s:i, s:I}, {s:s, s:s, s:i, s:I}]}", "pid", 7, "available", 1, "calls", "api",
		"cudaLaunchKernel", "kind", "launch", "calls", launches, "total_ns", (json_int_t)launches * 5000, "api",
		"cudaStreamSynchronize", "kind", "stream-sync", "calls", syncs, "total_ns", (json_int_t)waits_ms * MS);
	struct so_error err = { .text = "" };

	assert_non_null(answer);
	assert_int_equal(top_cuda__take(cuda, answer, now_s, &err), 0);
}

static void assert_cuda(const struct top_cuda *cuda, const char *expected)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	assert_int_equal(top_cuda__text(cuda, text), 0);
	assert_int_equal(text->length, strlen(expected));
	assert_memory_equal(text->bytes ?: "", expected, text->length);
}

/* Of two answers the difference; nothing of a target that was attached anew meanwhile. */
static void cuda_calls_are_counted_a_second(void **state)
{
	struct top_cuda cuda = { .at_s = 0 };

	take_cuda(&cuda, 1000, 10, 100, 50);
	assert_cuda(&cuda, "");
	take_cuda(&cuda, 3000, 30, 1100, 52);
	assert_cuda(&cuda,
		    "CUDA 1010 calls/s, waits 50.0 %: cudaStreamSynchronize 10/s 50.0 %, cudaLaunchKernel 1000/s");
	take_cuda(&cuda, 100, 1, 10, 54);
	assert_cuda(&cuda, "CUDA 0 calls/s, waits 0.0 %");
	top_cuda__clear(&cuda);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_is_added_up),       cmocka_unit_test(a_thread_is_where_it_was_last),
		cmocka_unit_test(threads_are_a_tree),     cmocka_unit_test(a_circle_of_parents_ends),
		cmocka_unit_test(rows_are_sorted),        cmocka_unit_test(rows_are_filtered),
		cmocka_unit_test(keys_change_the_view),   cmocka_unit_test(a_filter_is_typed),
		cmocka_unit_test(text_fits_into_columns), cmocka_unit_test(cuda_calls_are_counted_a_second),
		cmocka_unit_test(memory_is_judged),       cmocka_unit_test(memory_is_read),
		cmocka_unit_test(memory_is_drawn),        cmocka_unit_test(m_sorts_by_memory),
		cmocka_unit_test(a_screen_is_drawn),      cmocka_unit_test(a_screen_fits_its_terminal),
	};

	top_text__prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
