// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The walker over made threads that have several thread states: interpreters nested in one thread. Of each way in which
 * versions keep their frames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "daemon/python/python_layout.h"

#define BASE 0x7f0000000000ull

static uint8_t memory[0x20000];

static bool py_read(void *dst, __u32 bytes, __u64 address)
{
	if (address < BASE || address - BASE > sizeof(memory) - bytes)
		return false;
	memcpy(dst, memory + (address - BASE), bytes);
	return true;
}

#include "stakeout/python_walker.h"

#define FSBASE         BASE
#define TSS            0x100
#define LIST           (BASE + 0x200)
#define GIL            (BASE + 0x300)
#define INTERPRETER(i) (BASE + 0x1000 + (i)*0x200)
#define THREAD(i)      (BASE + 0x2000 + (i)*0x200)
#define HEAP           (BASE + 0x4000)
#define STACK(depth)   (BASE + sizeof(memory) - 0x100 * ((depth) + 1)) /* of a call of the loop, outermost first */
#define CODE(name)     (BASE + 0x8000 + (name)*0x100)

static struct so_python python;
static uint64_t heap;
static unsigned depth;
static uint64_t frames[8], cframes[8]; /* innermost ones, by thread state */

static void set(uint64_t address, uint64_t value)
{
	memcpy(memory + (address - BASE), &value, sizeof(value));
}

static void set_byte(uint64_t address, uint8_t value)
{
	memory[address - BASE] = value;
}

static void take_version(uint16_t version)
{
	const struct python_layout *l = python_layout__of_version(version < 0x030d ? version : 0x030c);

	python = l->walker;
	python.thread_next = l->thread_next;
	python.interp_threads = (uint16_t)l->interp_threads_head;
	python.interp_next = 400;
	if (version < 0x030d)
		return;
	/* 3.13: like 3.12, but without cframes. */
	python.flags &= ~SO_PYTHON_CFRAME;
	python.thread_cframe = python.cframe_back = 0;
}

/* Interpreters 0 to n - 1, in which this thread has its thread state of that number; the newest one is listed first. */
static void make(uint16_t version, unsigned n)
{
	memset(memory, 0, sizeof(memory));
	memset(frames, 0, sizeof(frames));
	memset(cframes, 0, sizeof(cframes));
	take_version(version);
	heap = HEAP;
	depth = 0;
	set(LIST, INTERPRETER(n - 1));
	for (unsigned i = 0; i < n; i++) {
		set(INTERPRETER(i) + python.interp_threads, THREAD(i));
		set(INTERPRETER(i) + python.interp_next, i ? INTERPRETER(i - 1) : 0);
		set(INTERPRETER(i) + python.interp_gil, GIL);
		set(THREAD(i) + python.thread_id, FSBASE);
		set(THREAD(i) + python.interp, INTERPRETER(i));
	}
	set(FSBASE + TSS, THREAD(0));
}

static void link_thread(unsigned thread)
{
	if (python.flags & SO_PYTHON_CFRAME) {
		set(cframes[thread] + python.cframe_frame, frames[thread]);
		set(THREAD(thread) + python.frame, cframes[thread]);
		return;
	}
	set(THREAD(thread) + python.frame, frames[thread]);
	if (python.cframe_back)
		set(THREAD(thread) + python.thread_cframe, cframes[thread]);
}

static void push_frame(unsigned thread, char name, bool first)
{
	uint64_t frame = heap;

	heap += 0x80;
	set(frame + python.frame_code, CODE(name - 'a'));
	set(frame + python.frame_back, frames[thread]);
	if (python.entry == SO_PYTHON_ENTRY_FLAG)
		set_byte(frame + python.frame_entry, first);
	frames[thread] = frame;
}

/* What a call of the loop has on the C stack. */
static void begin_call(unsigned thread)
{
	uint64_t record = STACK(depth++);

	if (python.cframe_back) {
		set(record + python.cframe_back, cframes[thread]);
		cframes[thread] = record;
	}
	if (python.entry == SO_PYTHON_ENTRY_SHIM) {
		set(record + 0x40 + python.frame_back, frames[thread]);
		set_byte(record + 0x40 + python.frame_entry, (uint8_t)python.entry_owner);
		frames[thread] = record + 0x40;
	}
}

/* A call of the loop with these functions, outermost first. Before 3.11 each is a call of its own. */
static void call(unsigned thread, const char *functions)
{
	for (const char *f = functions; *f || f == functions; f++) {
		if (f == functions || python.entry == SO_PYTHON_ENTRY_ALL)
			begin_call(thread);
		if (!*f)
			break;
		push_frame(thread, *f, f == functions);
	}
	link_thread(thread);
	/* 3.12 and later: the storage leads to where the thread is. Before, the one with the lock is known. */
	if (python.entry == SO_PYTHON_ENTRY_SHIM)
		set(FSBASE + TSS, THREAD(thread));
	else
		set(GIL + python.gil_current, THREAD(thread));
}

static struct so_python_walk w;

static void walk(bool several)
{
	const struct so_python_place place = {
		.gil = GIL, .interpreters = LIST, .main_interpreter = INTERPRETER(0), .tss = TSS, .several = several
	};

	w.state = SO_PYTHON_STATE_DEPTH;
	if (!py_begin(&w, &python, &place, FSBASE))
		for (unsigned i = 0; i < PY_MAX_STEPS && !py_step(&w, &python); i++)
			;
}

/* Functions, innermost first, each first one of its call followed by '|' (3.11 and later). */
static void expect(const char *want)
{
	char got[128];
	size_t n = 0;

	assert_int_equal(w.state, SO_PYTHON_STATE_COMPLETE);
	for (unsigned i = 0; i < w.n; i++) {
		uint64_t word = w.words[i * SO_PYTHON_WORDS];

		got[n++] = (char)('a' + (SO_PYTHON_FRAME_CODE(word) - CODE(0)) / 0x100);
		if (python.entry != SO_PYTHON_ENTRY_ALL && SO_PYTHON_FRAME_ENTRY(word))
			got[n++] = '|';
	}
	got[n] = '\0';
	assert_string_equal(got, want);
	assert_false(w.flags & SO_STACK_SUBINTERPRETER);
}

static const uint16_t versions[] = { 0x0308, 0x0309, 0x030a, 0x030b, 0x030c, 0x030d };

#define EACH_VERSION(v) for (const uint16_t *v = versions; v < versions + sizeof(versions) / sizeof(versions[0]); v++)

static bool has_calls(uint16_t version)
{
	return version >= 0x030b;
}

static void test_nested(void **state)
{
	EACH_VERSION(v)
	{
		make(*v, 3);
		call(0, "abc");
		call(1, "de");
		call(1, "f");
		call(2, "gh");
		walk(false);
		expect(has_calls(*v) ? "hg|f|ed|cba|" : "hgfedcba");
	}
}

/* No thread state of this thread has the lock: nothing says which one is the innermost. */
static void test_lock_released(void **state)
{
	EACH_VERSION(v)
	{
		make(*v, 3);
		call(0, "ab");
		call(1, "cd");
		call(2, "e");
		set(GIL + python.gil_current, 0);
		walk(false);
		expect(has_calls(*v) ? "e|dc|ba|" : "edcba");
		/* That of another thread has it. */
		set(THREAD(5) + python.thread_id, FSBASE + 8);
		set(GIL + python.gil_current, THREAD(5));
		walk(false);
		expect(has_calls(*v) ? "e|dc|ba|" : "edcba");
	}
}

/* Interpreters are not entered in the order in which they were made, and one has frames on both sides of another. */
static void test_order(void **state)
{
	EACH_VERSION(v)
	{
		if (*v < 0x030a)
			continue;
		make(*v, 4);
		call(0, "a");
		call(3, "bc");
		call(1, "d");
		call(3, "e");
		call(0, "fg");
		call(2, "h");
		set(GIL + python.gil_current, 0);
		walk(false);
		expect(has_calls(*v) ? "h|gf|e|d|cb|a|" : "hgfedcba");
	}
}

/* Before 3.10 that order cannot be known: the others' frames are missing, none is at a wrong place. */
static void test_order_not_known(void **state)
{
	make(0x0309, 2);
	call(0, "ab");
	call(1, "cd");
	call(0, "ef");
	set(GIL + python.gil_holder, THREAD(0));
	set(GIL + python.gil_locked, 1);
	walk(false);
	expect("feba");
}

/* Thread states of other threads are not taken, nor is more than one interpreter looked at where there is one only. */
static void test_other_threads(void **state)
{
	EACH_VERSION(v)
	{
		make(*v, 2);
		set(THREAD(0) + python.thread_next, THREAD(5));
		set(THREAD(5) + python.thread_id, FSBASE + 8);
		call(5, "xyz");
		set(GIL + python.gil_current, 0);
		call(0, "a");
		call(1, "b");
		walk(false);
		expect(has_calls(*v) ? "b|a|" : "ba");
	}
}

/* Several thread states of one interpreter: looked for only where it is known that a thread has some. */
static void test_one_interpreter(void **state)
{
	EACH_VERSION(v)
	{
		make(*v, 1);
		set(THREAD(0) + python.thread_next, THREAD(1));
		set(THREAD(1) + python.thread_id, FSBASE);
		set(THREAD(1) + python.interp, INTERPRETER(0));
		call(0, "ab");
		call(1, "cd");
		walk(true);
		expect(has_calls(*v) ? "dc|ba|" : "dcba");
		if (python.entry != SO_PYTHON_ENTRY_SHIM)
			continue;
		walk(false);
		expect("dc|");
	}
}

/* The innermost interpreter has no frame yet, or none any more. */
static void test_without_frames(void **state)
{
	EACH_VERSION(v)
	{
		make(*v, 2);
		call(0, "ab");
		if (python.entry == SO_PYTHON_ENTRY_SHIM)
			set(FSBASE + TSS, THREAD(1));
		else
			set(GIL + python.gil_current, THREAD(1));
		if (python.flags & SO_PYTHON_CFRAME)
			set(THREAD(1) + python.frame, THREAD(1) + 0x180); /* its first cframe */
		walk(false);
		expect(has_calls(*v) ? "ba|" : "ba");
	}
}

/* An interpreter that another thread made is entered with that thread's state. */
static void test_made_by_another_thread(void **state)
{
	EACH_VERSION(v)
	{
		make(*v, 2);
		call(0, "ab");
		call(1, "cd");
		set(THREAD(1) + python.thread_id, FSBASE + 8);
		set(GIL + python.gil_holder, THREAD(0));
		set(GIL + python.gil_locked, 1);
		walk(false);
		if (*v == 0x030d) {
			assert_int_equal(w.state, SO_PYTHON_STATE_NO_THREAD);
			continue;
		}
		expect(has_calls(*v) ? "dc|ba|" : "dcba");
		/* It gave the lock up meanwhile and took it again: the calls' records tell. */
		set(GIL + python.gil_holder, THREAD(1));
		walk(false);
		expect(has_calls(*v) ? "dc|ba|" : *v == 0x030a ? "dcba" : "ba");
		/* The other thread runs it: its stack ends below this one's calls. */
		set(THREAD(1) + python.thread_id, STACK(depth - 1) + 8);
		walk(false);
		expect(!has_calls(*v) ? "ba" : *v == 0x030b ? "ba|" : "dc|ba|");
		/* Nobody has the lock. */
		set(GIL + python.gil_locked, 0);
		walk(false);
		expect(!has_calls(*v) ? "ba" : *v == 0x030b ? "ba|" : "dc|ba|");
	}
}

/* A call whose last frame has gone is still there: it frees what that one held. */
static void test_empty_calls(void **state)
{
	make(0x030c, 1);
	call(0, "a");
	call(0, "");
	call(0, "b");
	walk(false);
	expect("b|a|");
	assert_int_equal(w.empty_calls, 1);
	make(0x030d, 2);
	call(0, "a");
	call(0, "");
	call(1, "b");
	call(1, "");
	walk(false);
	expect("b|a|");
	assert_int_equal(w.empty_calls, 2);
}

/* Lists that never end, that lead nowhere, or are too long: the frames that are known, and that some may be missing. */
static void test_damaged_lists(void **state)
{
	make(0x030d, 2);
	call(0, "a");
	call(1, "b");
	set(INTERPRETER(1) + python.interp_next, INTERPRETER(1));
	walk(false);
	assert_int_equal(w.state, SO_PYTHON_STATE_COMPLETE);
	assert_true(w.flags & SO_STACK_SUBINTERPRETER);
	assert_int_equal(w.n, 1);
	set(INTERPRETER(1) + python.interp_next, 8);
	walk(false);
	assert_true(w.flags & SO_STACK_SUBINTERPRETER);
	assert_int_equal(w.n, 1);
	set(INTERPRETER(1) + python.interp_next, INTERPRETER(0));
	set(THREAD(0) + python.thread_next, THREAD(0));
	walk(false);
	assert_true(w.flags & SO_STACK_SUBINTERPRETER);
	/* A frame that cannot be read ends the walk there. */
	set(THREAD(0) + python.thread_next, 0);
	set(THREAD(0) + python.frame, 16);
	walk(false);
	assert_int_equal(w.state, SO_PYTHON_STATE_FRAME);
	assert_int_equal(w.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nested),         cmocka_unit_test(test_lock_released),
		cmocka_unit_test(test_order),          cmocka_unit_test(test_order_not_known),
		cmocka_unit_test(test_other_threads),  cmocka_unit_test(test_one_interpreter),
		cmocka_unit_test(test_without_frames), cmocka_unit_test(test_made_by_another_thread),
		cmocka_unit_test(test_empty_calls),    cmocka_unit_test(test_damaged_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
