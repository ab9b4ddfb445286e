// SPDX-License-Identifier: GPL-2.0-or-later
/* The tables of offsets, whole and damaged, and a task in memory that is made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/python/python_asyncio.h"
#include "daemon/python/python_task_list.h"
#include "tests/unit/python_tables.h"

#define RUNTIME 0x10000u
#define TABLE   0x20000u

/* Of CPython 3.14.8 on x86-64, read from its section .AsyncioDebug. */
static const uint64_t module_3_14[13] = { 168, 136, 96, 108, 109, 128, 152, 225864, 10880, 936, 864, 872, 880 };

struct tables {
	uint64_t runtime[128], module[13];
	bool unreadable;
};

static bool read_tables(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct tables *t = context;

	if (t->unreadable)
		return false;
	if (address == RUNTIME && bytes <= sizeof(t->runtime))
		memcpy(to, t->runtime, bytes);
	else if (address == TABLE && bytes <= sizeof(t->module))
		memcpy(to, t->module, bytes);
	else
		return false;
	return true;
}

static struct python_process process_of(uint16_t version)
{
	return (struct python_process){ .runtime = RUNTIME, .layout = { .version = version, .object_type = 8 } };
}

static int read_as(struct tables *t, uint16_t version, struct python_asyncio *out, struct so_error *err)
{
	const struct foreign_memory memory = { read_tables, t };
	const struct python_process process = process_of(version);

	return python_asyncio__read(&memory, &process, TABLE, out, err);
}

static void whole_tables_are_read(void **state)
{
	struct tables t = { .unreadable = false };
	struct python_asyncio a;
	struct so_error err = { "" };

	memcpy(t.runtime, python_table_3_14, sizeof(python_table_3_14));
	memcpy(t.module, module_3_14, sizeof(module_3_14));
	assert_int_equal(read_as(&t, 0x030e, &a, &err), 0);
	assert_int_equal(a.task_bytes, module_3_14[0]);
	assert_int_equal(a.coro, module_3_14[5]);
	assert_int_equal(a.thread_tasks, module_3_14[12]);
	assert_int_equal(a.delegate_slot, 1);
}

static void other_versions_are_refused_by_name(void **state)
{
	struct tables t = { .unreadable = false };
	struct python_asyncio a;
	struct so_error err = { "" };

	assert_int_equal(read_as(&t, 0x030d, &a, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "CPython 3.13"));
	assert_int_equal(read_as(&t, 0x0310, &a, &err), -ENOTSUP);
}

/* Each word of either table, made larger than what it is in; and odd. */
static void damaged_tables_are_refused(void **state)
{
	struct tables t = { .unreadable = true };
	struct python_asyncio a = { .version = 7 };
	struct so_error err = { "" };

	assert_int_equal(read_as(&t, 0x030e, &a, &err), -EFAULT);
	t.unreadable = false;
	memcpy(t.runtime, python_table_3_14, sizeof(python_table_3_14));
	for (unsigned i = 0; i < 13; i++) {
		memcpy(t.module, module_3_14, sizeof(module_3_14));
		t.module[i] = 1ull << 40;
		assert_int_equal(read_as(&t, 0x030e, &a, &err), -EINVAL);
		t.module[i] = UINT64_MAX;
		assert_int_equal(read_as(&t, 0x030e, &a, &err), -EINVAL);
	}
	memcpy(t.module, module_3_14, sizeof(module_3_14));
	/* size, stackpointer of a frame; of a set, an int, a generator: size and fields; a node's next and prev. */
	for (unsigned word = 62; word <= 88; word++) {
		uint64_t before = t.runtime[word];

		if ((word >= 66 && word <= 70) || (word >= 74 && word <= 82) || word == 84)
			continue;
		t.runtime[word] = UINT64_MAX - 7;
		assert_int_equal(read_as(&t, 0x030e, &a, &err), -EINVAL);
		t.runtime[word] = before;
	}
	assert_int_equal(a.version, 7);
}

static void states_have_other_numbers_in_each_version(void **state)
{
	const struct python_asyncio old = { .version = 0x030e }, new = { .version = 0x030f };

	assert_int_equal(python_asyncio__frame_state(&old, (uint8_t)-3), PYTHON_FRAME_CREATED);
	assert_int_equal(python_asyncio__frame_state(&old, (uint8_t)-2), PYTHON_FRAME_SUSPENDED);
	assert_int_equal(python_asyncio__frame_state(&old, (uint8_t)-1), PYTHON_FRAME_DELEGATING);
	assert_int_equal(python_asyncio__frame_state(&old, 0), PYTHON_FRAME_EXECUTING);
	assert_int_equal(python_asyncio__frame_state(&old, 1), PYTHON_FRAME_CLEARED);
	assert_int_equal(python_asyncio__frame_state(&old, 4), PYTHON_FRAME_CLEARED);
	assert_int_equal(python_asyncio__frame_state(&old, 5), PYTHON_FRAME_UNKNOWN);
	assert_int_equal(python_asyncio__frame_state(&new, 0), PYTHON_FRAME_CREATED);
	assert_int_equal(python_asyncio__frame_state(&new, 1), PYTHON_FRAME_SUSPENDED);
	assert_int_equal(python_asyncio__frame_state(&new, 3), PYTHON_FRAME_DELEGATING);
	assert_int_equal(python_asyncio__frame_state(&new, 4), PYTHON_FRAME_EXECUTING);
	assert_int_equal(python_asyncio__frame_state(&new, 5), PYTHON_FRAME_CLEARED);
	assert_int_equal(python_asyncio__frame_state(&new, (uint8_t)-1), PYTHON_FRAME_UNKNOWN);
}

static void other_files_have_no_table(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_int_equal(python_asyncio__find(fd), 0);
	assert_int_equal(python_asyncio__find(null), 0);
	close(fd);
	close(null);
}

/* Nodes of a list, by their numbers from 1 on; 0 is the head. */
#define NODES 6
static uint64_t nodes[NODES][2];

static bool read_nodes(void *context, uint64_t address, void *to, size_t bytes)
{
	if (address < 0x1000 || address + bytes > 0x1000 + sizeof(nodes))
		return false;
	memcpy(to, (const char *)nodes + (address - 0x1000), bytes);
	return true;
}

static uint64_t node(unsigned i)
{
	return 0x1000 + i % NODES * sizeof(nodes[0]);
}

static void make_list(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		nodes[i][0] = node(i + 1);
		nodes[i][1] = node(i + NODES - 1);
	}
}

static int walk(unsigned room, unsigned *found, bool *ended)
{
	const struct foreign_memory memory = { read_nodes, NULL };
	const struct python_asyncio asyncio = { .node = 0 };
	struct python_task_walk at = { .head = node(0) };
	uint64_t tasks[NODES];
	unsigned n;
	int ret = 0;

	*found = 0;
	for (unsigned calls = 0; !ret && !at.ended; calls++) {
		assert_true(calls < 10);
		ret = python_task_list__walk(&memory, &asyncio, &at, tasks, room, &n);
		assert_true(n <= room);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(tasks[i], node(++*found));
	}
	*ended = at.ended;
	return ret;
}

static void lists_are_walked_in_parts(void **state)
{
	unsigned found;
	bool ended;

	make_list();
	for (unsigned room = 1; room <= NODES; room++) {
		assert_int_equal(walk(room, &found, &ended), 0);
		assert_int_equal(found, NODES - 1);
		assert_true(ended);
	}
	memset(nodes, 0, sizeof(nodes));
	assert_int_equal(walk(3, &found, &ended), 0);
	assert_true(ended && !found);
}

static void damaged_lists_end(void **state)
{
	static const uint64_t wild[] = { 0, 8, 0x1001, 0x1000 + sizeof(nodes), UINT64_MAX, 1ull << 47 };
	unsigned found;
	bool ended;

	for (unsigned i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		make_list();
		nodes[2][0] = wild[i];
		assert_int_equal(walk(2, &found, &ended), -EAGAIN);
		assert_true(found == 2 && !ended);
	}
	/* Back to one of before, and to itself. */
	for (unsigned i = 1; i <= 3; i++) {
		make_list();
		nodes[3][0] = node(i);
		assert_int_equal(walk(2, &found, &ended), -EAGAIN);
		assert_true(found == 3 && !ended);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_tables_are_read),
		cmocka_unit_test(other_versions_are_refused_by_name),
		cmocka_unit_test(damaged_tables_are_refused),
		cmocka_unit_test(states_have_other_numbers_in_each_version),
		cmocka_unit_test(other_files_have_no_table),
		cmocka_unit_test(lists_are_walked_in_parts),
		cmocka_unit_test(damaged_lists_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
