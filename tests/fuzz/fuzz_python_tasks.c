// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A task of asyncio, its coroutines and its list in whatever bytes are taken for a process's memory. The input begins
 * with the version, whether the task runs, and what to walk or to read; types have addresses of their own.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/python/python_asyncio.h"
#include "daemon/python/python_debug_offsets.h"
#include "daemon/python/python_task.h"
#include "daemon/python/python_task_list.h"
#include "tests/unit/python_tables.h"

#define BASE      0x7f0000010000ull
#define TYPES     0x7f0000000000ull
#define HEAD      4u
#define MAX_READS 20000u /* of one task: 512 frames of a thread, each with its code object, and 8 waiters' sets */
#define ROOM      64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const type_names[] = {
	"coroutine", "generator", "async_generator", "async_generator_asend", "coroutine_wrapper", "anext_awaitable",
	"str",       "int",       "FutureIter",
};

struct memory {
	const uint8_t *bytes;
	size_t size;
	unsigned reads;
};

/* A type is 256 bytes: its name's address where that is looked for, and behind it the name. */
static bool read_type(uint64_t at, void *to, size_t bytes)
{
	size_t which = at / 256;
	uint8_t type[256] = { 0 };

	if (which >= sizeof(type_names) / sizeof(type_names[0]) || at % 256 + bytes > sizeof(type))
		return false;
	for (unsigned i = 0; i < 64; i += 8)
		memcpy(type + i, &(uint64_t){ TYPES + which * 256 + 128 }, 8);
	strcpy((char *)type + 128, type_names[which]);
	memcpy(to, type + at % 256, bytes);
	return true;
}

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	struct memory *memory = context;
	uint64_t at = address - BASE;

	if (++memory->reads > MAX_READS)
		__builtin_trap();
	if (address >= TYPES && address < BASE)
		return read_type(address - TYPES, to, bytes);
	if (address < BASE || at > memory->size || bytes > memory->size - at)
		return false;
	memcpy(to, memory->bytes + at, bytes);
	return true;
}

static const struct python_asyncio offsets = {
	.version = 0x030e,
	.task_bytes = 168,
	.name = 136,
	.awaited_by = 96,
	.coro = 128,
	.is_task = 108,
	.awaited_by_is_set = 109,
	.node = 152,
	.thread_task = 64,
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

static void read_task(const struct foreign_memory *memory, const struct python_process *process,
		      const struct python_asyncio *asyncio, const uint8_t *head)
{
	struct python_task_reader reader = {
		.memory = *memory, .types = *memory, .process = process, .asyncio = asyncio, .hasty = head[2] & 1
	};
	struct python_task task;
	int ret = python_task__read(&reader, BASE + 8u * head[3], head[1] & 1 ? BASE : 0, &task);

	if (ret != 0 && ret != -EAGAIN && ret != -EFAULT)
		__builtin_trap();
	if (!ret && (task.n_frames > PYTHON_TASK_FRAMES || task.n_awaited_by > PYTHON_TASK_WAITERS ||
		     !memchr(task.name, '\0', sizeof(task.name))))
		__builtin_trap();
}

static void walk(struct memory *bytes, const struct foreign_memory *memory, const struct python_asyncio *asyncio,
		 const uint8_t *head)
{
	struct python_task_walk at = { .head = BASE + 8u * head[3] };
	uint64_t tasks[ROOM];
	size_t walked = 0;
	unsigned n;
	int ret = 0;

	while (!ret && !at.ended) {
		bytes->reads = 0;
		ret = python_task_list__walk(memory, asyncio, &at, tasks, ROOM, &n);
		walked += n;
		/* A node is met once. */
		if (n > ROOM || walked > bytes->size)
			__builtin_trap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_asyncio asyncio = offsets;
	struct python_process process = { .runtime = BASE };
	struct memory bytes;
	const struct foreign_memory memory = { read_memory, &bytes };
	struct so_error err;

	if (size <= HEAD)
		return 0;
	if (python_debug_offsets__read(python_table_3_14, sizeof(python_table_3_14), &process.layout, &err))
		__builtin_trap();
	process.walker = process.layout.walker;
	asyncio.version = (uint16_t)(0x030e + data[0] % 2);
	asyncio.delegate_slot = (uint16_t)(1 + data[0] % 2);
	bytes = (struct memory){ .bytes = data + HEAD, .size = size - HEAD };
	if (data[1] & 2)
		walk(&bytes, &memory, &asyncio, data);
	else
		read_task(&memory, &process, &asyncio, data);
	return 0;
}
