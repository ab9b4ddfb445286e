// SPDX-License-Identifier: GPL-2.0-or-later
/* A task in memory that is made up: of CPython 3.14, one coroutine that waits for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/python/python_debug_offsets.h"
#include "daemon/python/python_task.h"
#include "tests/unit/python_tables.h"

#define BASE 0x10000u
/* Where things are, from BASE on; a thread state is at 0. */
enum {
	THREAD = 0,
	TASK = 512,
	NAME = 704,
	OUTER = 768,
	WRAPPER = 1024,
	INNER = 1152,
	NODE = 1408,
	SET = 1472,
	ENTRIES = 1536,
	FUTURE = 1664,
	CODE = 1856,
	TYPES = 2560,
	TYPE_BYTES = 128,
	ALL = 4096,
};
enum { COROUTINE, ASEND, STR, INT, OTHER };

static const struct python_asyncio asyncio_offsets = {
	.version = 0x030e,
	.task_bytes = 168,
	.name = 136,
	.awaited_by = 96,
	.coro = 128,
	.is_task = 108,
	.awaited_by_is_set = 109,
	.node = 152,
	.thread_task = 400,
	.gen_frame = 72,
	.gen_state = 67,
	.frame_stack = 64,
	.set_used = 24,
	.set_mask = 32,
	.set_table = 40,
	.int_tag = 16,
	.int_digits = 24,
	.delegate_slot = 1,
};

static _Alignas(8) uint8_t made[ALL];
static struct python_process process;

static void put(unsigned at, uint64_t value)
{
	memcpy(made + at, &value, sizeof(value));
}

static bool read_made(void *context, uint64_t address, void *to, size_t bytes)
{
	if (address < BASE || address - BASE > ALL || bytes > ALL - (address - BASE))
		return false;
	memcpy(to, made + (address - BASE), bytes);
	return true;
}

static uint64_t type(unsigned which)
{
	return BASE + TYPES + which * TYPE_BYTES;
}

static void make_coroutine(unsigned at, int8_t state, uint64_t awaited)
{
	unsigned frame = at + 72;

	put(at + 8, type(COROUTINE));
	made[at + 67] = (uint8_t)state;
	put(frame, (BASE + CODE) | 1);
	put(frame + 56, BASE + CODE + process.walker.code_first + 2 * at);
	put(frame + 64, BASE + frame + 88);
	put(frame + 80, awaited);
	made[frame + 74] = 1;
}

/* OUTER waits for INNER, through the asend() of an asynchronous generator, which waits for a future. */
static void make(void)
{
	static const char *const names[] = { "coroutine", "async_generator_asend", "str", "int", "FutureIter" };
	struct so_error err;

	memset(made, 0, sizeof(made));
	assert_int_equal(
		python_debug_offsets__read(python_table_3_14, sizeof(python_table_3_14), &process.layout, &err), 0);
	process.walker = process.layout.walker;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		put(TYPES + i * TYPE_BYTES + process.layout.type_name, type(i) + 64);
		strcpy((char *)made + TYPES + i * TYPE_BYTES + 64, names[i]);
	}
	made[TASK + 108] = 1;
	put(TASK + 136, BASE + NAME);
	put(TASK + 128, BASE + OUTER);
	put(TASK + 152, BASE + NODE);
	put(TASK + 160, BASE + NODE);
	put(NODE, BASE + TASK + 152);
	put(NODE + 8, BASE + TASK + 152);
	put(NAME + 8, type(STR));
	put(NAME + process.layout.str.length, 3);
	made[NAME + process.layout.str.state] = 0x64; /* one byte a character, compact, ASCII */
	memcpy(made + NAME + process.layout.str.ascii_data, "one", 3);
	make_coroutine(OUTER, -1, BASE + WRAPPER);
	put(WRAPPER + 8, type(ASEND));
	put(WRAPPER + 16, BASE + INNER);
	make_coroutine(INNER, -1, BASE + FUTURE);
	put(FUTURE + 8, type(OTHER));
}

static int read_task(uint64_t thread, struct python_task *task)
{
	const struct foreign_memory memory = { read_made, NULL };
	struct python_task_reader reader = {
		.memory = memory, .types = memory, .process = &process, .asyncio = &asyncio_offsets
	};

	return python_task__read(&reader, BASE + TASK, thread, task);
}

static void coroutines_lead_to_each_other(void **state)
{
	struct python_task task;

	make();
	assert_int_equal(read_task(0, &task), 0);
	assert_string_equal(task.name, "one");
	assert_int_equal(task.state, PYTHON_TASK_WAITING);
	assert_int_equal(task.n_frames, 2);
	assert_int_equal(task.frames[0].instruction, OUTER);
	assert_int_equal(task.frames[1].instruction, INNER);
	assert_int_equal(task.frames[1].code, BASE + CODE);
	assert_false(task.cut);
}

static void each_state_is_known(void **state)
{
	struct python_task task;

	make();
	make_coroutine(INNER, -2, 0);
	assert_int_equal(read_task(0, &task), 0);
	assert_int_equal(task.state, PYTHON_TASK_READY);
	/* One that is awaited has begun, and has not ended; nobody but a running task executes one. */
	for (int8_t other = -4; other <= 5; other++) {
		make_coroutine(INNER, other, 0);
		assert_int_equal(read_task(0, &task), other == -2 ? 0 : other == -1 ? 0 : -EAGAIN);
	}
	make_coroutine(OUTER, -3, 0);
	assert_int_equal(read_task(0, &task), 0);
	assert_true(task.state == PYTHON_TASK_CREATED && task.n_frames == 1);
	make_coroutine(OUTER, 4, 0);
	assert_int_equal(read_task(0, &task), 0);
	assert_true(task.state == PYTHON_TASK_ENDED && !task.n_frames);
}

/* Its frames are those of its thread, down to its own coroutine. */
static void what_runs_is_found_in_its_thread(void **state)
{
	struct python_task task;

	make();
	make_coroutine(OUTER, 0, 0);
	make_coroutine(INNER, 0, 0);
	put(THREAD + asyncio_offsets.thread_task, BASE + TASK);
	put(THREAD + process.walker.frame, BASE + INNER + 72);
	put(INNER + 72 + process.walker.frame_back, BASE + OUTER + 72);
	assert_int_equal(read_task(BASE + THREAD, &task), 0);
	assert_int_equal(task.state, PYTHON_TASK_RUNNING);
	assert_int_equal(task.n_frames, 2);
	assert_int_equal(task.frames[0].instruction, OUTER);
	assert_int_equal(task.frames[1].instruction, INNER);
	put(INNER + 72 + process.walker.frame_back, 0);
	assert_int_equal(read_task(BASE + THREAD, &task), -EAGAIN);
	/* In a circle. */
	put(INNER + 72 + process.walker.frame_back, BASE + INNER + 72);
	assert_int_equal(read_task(BASE + THREAD, &task), -EAGAIN);
}

static void waiters_are_found_through_sets_and_futures(void **state)
{
	struct python_task task;

	make();
	put(TASK + 96, BASE + TASK);
	assert_int_equal(read_task(0, &task), 0);
	assert_true(task.n_awaited_by == 1 && task.awaited_by[0] == BASE + TASK && !task.more_waiters);
	made[TASK + 109] = 1;
	put(TASK + 96, BASE + SET);
	put(SET + 24, 2);
	put(SET + 32, 7);
	put(SET + 40, BASE + ENTRIES);
	put(ENTRIES + 16, BASE + FUTURE);
	put(ENTRIES + 48, BASE + TASK);
	put(FUTURE + 96, BASE + TASK);
	assert_int_equal(read_task(0, &task), 0);
	assert_true(task.n_awaited_by == 2 && task.awaited_by[1] == BASE + TASK && !task.more_waiters);
	/* Futures that await each other end. */
	put(FUTURE + 96, BASE + FUTURE);
	assert_int_equal(read_task(0, &task), 0);
	assert_int_equal(task.n_awaited_by, 1);
	put(SET + 32, 6);
	assert_int_equal(read_task(0, &task), -EAGAIN);
}

static void names_may_be_numbers(void **state)
{
	struct python_task task;

	make();
	put(NAME + 8, type(INT));
	put(NAME + 16, 1 << 3);
	put(NAME + 24, 1234);
	assert_int_equal(read_task(0, &task), 0);
	assert_string_equal(task.name, "Task-1234");
	put(NAME + 16, 2 << 3);
	put(NAME + 24, 5 | 1ull << 32);
	assert_int_equal(read_task(0, &task), 0);
	assert_string_equal(task.name, "Task-1073741829");
	put(NAME + 16, 3 << 3);
	assert_int_equal(read_task(0, &task), -EAGAIN);
	put(NAME + 8, type(OTHER));
	assert_int_equal(read_task(0, &task), 0);
	assert_string_equal(task.name, "?");
}

/* Its neighbours in the list do not know of it, as when it has left: it is a task no more. */
static void only_what_is_listed_is_a_task(void **state)
{
	struct python_task task;

	make();
	put(NODE, BASE + NODE);
	assert_int_equal(read_task(0, &task), -EAGAIN);
	make();
	put(TASK + 152, 0);
	put(TASK + 160, 0);
	assert_int_equal(read_task(0, &task), -EAGAIN);
	make();
	made[TASK + 108] = 0;
	assert_int_equal(read_task(0, &task), -EAGAIN);
	make();
	put(TASK + 128, 8);
	assert_true(read_task(0, &task) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coroutines_lead_to_each_other),
		cmocka_unit_test(each_state_is_known),
		cmocka_unit_test(what_runs_is_found_in_its_thread),
		cmocka_unit_test(waiters_are_found_through_sets_and_futures),
		cmocka_unit_test(names_may_be_numbers),
		cmocka_unit_test(only_what_is_listed_is_a_task),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
