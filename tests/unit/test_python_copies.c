// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The walker over made frames: a free-threaded thread's own copy of the instructions, its switched lock, musl's table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include <linux/types.h>

#define BASE 0x7f0000000000ull

static uint8_t memory[0x8000];

static bool py_read(void *dst, __u32 bytes, __u64 address)
{
	if (address < BASE || address - BASE > sizeof(memory) - bytes)
		return false;
	memcpy(dst, memory + (address - BASE), bytes);
	return true;
}

#include "stakeout/python_walker.h"

#define FSBASE      BASE
#define THREAD      (BASE + 0x1000)
#define FRAME       (BASE + 0x2000)
#define CODE        (BASE + 0x3000)
#define COPIES      (BASE + 0x4000)
#define COPY(i)     (BASE + 0x5000 + (i)*0x400)
#define INTERPRETER (BASE + 0x7000)
#define GIL         (BASE + 0x7800)

static const struct so_python python = {
	.version = 0x030e,
	.flags = SO_PYTHON_TAGGED | SO_PYTHON_FREE_THREADED | SO_PYTHON_COPIES,
	.entry = SO_PYTHON_ENTRY_SHIM,
	.entry_owner = 3,
	.thread_id = 152,
	.frame = 72,
	.interp = 16,
	.interp_gil = 16,
	.gil_holder = 16,
	.gil_locked = 24,
	.frame_code = 0,
	.frame_back = 8,
	.frame_instruction = 56,
	.frame_entry = 78,
	.frame_bytes = 79,
	.code_first = 232,
	.code_sum = 48,
	.sum_words = 0x3fff,
	.frame_copy = 72,
	.code_copies = 224,
};

static void set(uint64_t address, uint64_t value)
{
	memcpy(memory + (address - BASE), &value, sizeof(value));
}

/* One frame of one thread, which runs that copy. */
static void make(int32_t copy, uint64_t instruction)
{
	memset(memory, 0, sizeof(memory));
	set(FSBASE + 0x100, THREAD);
	set(THREAD + python.thread_id, FSBASE);
	set(THREAD + python.frame, FRAME);
	set(THREAD + python.interp, INTERPRETER);
	set(INTERPRETER + python.interp_gil, GIL);
	set(FRAME + python.frame_code, CODE | 1);
	set(FRAME + python.frame_instruction, instruction);
	memcpy(memory + (FRAME - BASE) + python.frame_copy, &copy, sizeof(copy));
	set(CODE + python.code_copies, COPIES);
	set(COPIES, 3);
	for (unsigned i = 0; i < 3; i++)
		set(COPIES + 8 + 8 * i, i ? COPY(i) : CODE + python.code_first);
}

static struct so_python_walk w;

static void walk(struct so_python_place place)
{
	w.state = SO_PYTHON_STATE_DEPTH;
	place.main_interpreter = INTERPRETER;
	if (!py_begin(&w, &python, &place, FSBASE))
		for (unsigned i = 0; i < PY_MAX_STEPS && !py_step(&w, &python); i++)
			;
}

static void expect_instruction(int32_t copy, uint64_t at, uint32_t wanted)
{
	make(copy, at);
	walk((struct so_python_place){ .tss = 0x100 });
	assert_int_equal(w.state, SO_PYTHON_STATE_COMPLETE);
	assert_int_equal(w.n, 1);
	assert_true(SO_PYTHON_FRAME_CODE(w.words[0]) == CODE);
	assert_int_equal(SO_PYTHON_FRAME_INSTRUCTION(w.words[0]), wanted);
}

static void test_copies(void **state)
{
	expect_instruction(0, CODE + 232 + 2 * 7, 7);
	expect_instruction(1, COPY(1) + 2 * 7, 7);
	expect_instruction(2, COPY(2) + 2 * 300, 300);
	/* In the middle of a change to another copy, and where there are none. */
	expect_instruction(1, CODE + 232, SO_PYTHON_NO_INSTRUCTION);
	expect_instruction(-1, CODE + 232 + 2, 1);
	expect_instruction(0x7fffffff, COPY(1), SO_PYTHON_NO_INSTRUCTION);
	make(1, COPY(1));
	set(CODE + python.code_copies, 0);
	walk((struct so_python_place){ .tss = 0x100 });
	assert_int_equal(SO_PYTHON_FRAME_INSTRUCTION(w.words[0]), SO_PYTHON_NO_INSTRUCTION);
}

static void test_switched_lock(void **state)
{
	struct so_python_place place = { .tss = 0x100 };

	make(0, CODE + 232);
	walk(place);
	assert_int_equal(w.flags, SO_STACK_PYTHON_KNOWN | SO_STACK_NO_GIL);
	/* An extension module wants it: switched on, free, taken by another, by this one. */
	set(GIL, 1);
	walk(place);
	assert_int_equal(w.flags, SO_STACK_PYTHON_KNOWN);
	set(GIL + python.gil_holder, THREAD + 0x10);
	set(GIL + python.gil_locked, 1);
	walk(place);
	assert_int_equal(w.flags, SO_STACK_PYTHON_KNOWN);
	set(GIL + python.gil_holder, THREAD);
	walk(place);
	assert_int_equal(w.flags, SO_STACK_PYTHON_KNOWN | SO_STACK_GIL);
	/* In another interpreter. */
	set(THREAD + python.interp, INTERPRETER + 0x100);
	set(INTERPRETER + 0x100 + python.interp_gil, GIL);
	walk(place);
	assert_int_equal(w.flags, SO_STACK_PYTHON_KNOWN | SO_STACK_GIL | SO_STACK_SUBINTERPRETER);
}

static void test_table_of_values(void **state)
{
	make(0, CODE + 232);
	set(FSBASE + 0x100, 0);
	set(FSBASE + 0x80, FSBASE + 0x800);
	set(FSBASE + 0x800 + 40 * 8, THREAD);
	walk((struct so_python_place){ .table = 0x80, .tss = 40 * 8 });
	assert_int_equal(w.state, SO_PYTHON_STATE_COMPLETE);
	assert_int_equal(w.n, 1);
	set(FSBASE + 0x80, 8);
	walk((struct so_python_place){ .table = 0x80, .tss = 40 * 8 });
	assert_int_equal(w.state, SO_PYTHON_STATE_NO_THREAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_switched_lock),
		cmocka_unit_test(test_table_of_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
