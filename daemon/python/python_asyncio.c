// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_asyncio.h"

#include <errno.h>

#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/python/python_debug_offsets.h"
#include "daemon/python/python_object.h"

#define SECTION ".AsyncioDebug"

/* Words of _Py_DebugOffsets: X(name, which in 3.14, in 3.15). */
#define TABLE_WORDS(X)        \
	X(INTERPRETER, 6, 6)  \
	X(FRAME, 31, 39)      \
	X(STACK, 37, 45)      \
	X(SET, 62, 74)        \
	X(SET_USED, 63, 75)   \
	X(SET_TABLE, 64, 76)  \
	X(SET_MASK, 65, 77)   \
	X(INT, 71, 83)        \
	X(INT_TAG, 72, 84)    \
	X(INT_DIGITS, 73, 85) \
	X(GEN, 83, 99)        \
	X(GEN_FRAME, 85, 101) \
	X(GEN_STATE, 86, 102) \
	X(NODE_NEXT, 87, 103) \
	X(NODE_PREV, 88, 104)

enum table_word {
#define X(name, ...) W_##name,
	TABLE_WORDS(X)
#undef X
		N_WORDS,
};

static const uint8_t places[][N_WORDS] = {
	{
#define X(name, in_3_14, in_3_15) in_3_14,
		TABLE_WORDS(X)
#undef X
	},
	{
#define X(name, in_3_14, in_3_15) in_3_15,
		TABLE_WORDS(X)
#undef X
	},
};

/* struct _Py_AsyncioModuleDebugOffsets: the words of asyncio_task_object, of the interpreter, of the thread. */
enum module_word {
	M_TASK,
	M_NAME,
	M_AWAITED_BY,
	M_IS_TASK,
	M_IS_SET,
	M_CORO,
	M_NODE,
	M_INTERPRETER,
	M_INTERPRETER_TASKS,
	M_THREAD,
	M_LOOP,
	M_RUNNING,
	M_THREAD_TASKS,
	N_MODULE,
};

/* Above what they are. */
#define MAX_STATE (1u << 24)

uint64_t python_asyncio__find(int fd)
{
	_cleanup_(elf_sections) struct elf_sections sections = { 0 };
	const Elf64_Shdr *section;
	struct elf_image image;

	if (elf_image__of_file(fd, &image) || elf_sections__read(&image, &sections))
		return 0;
	section = elf_sections__by_name(&sections, &image, SECTION);
	return section ? section->sh_addr : 0;
}

struct field {
	uint64_t at, size;
	unsigned bytes;
};

static bool all_inside(const struct field *fields, size_t n, uint64_t least, uint64_t most)
{
	for (size_t i = 0; i < n; i++)
		if (fields[i].size > most || fields[i].at < least || fields[i].at > fields[i].size ||
		    fields[i].bytes > fields[i].size - fields[i].at || fields[i].at % fields[i].bytes)
			return false;
	return true;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_module(const uint64_t *m, uint16_t header)
{
	const struct field of_task[] = {
		{ m[M_NAME], m[M_TASK], 8 },   { m[M_AWAITED_BY], m[M_TASK], 8 }, { m[M_IS_TASK], m[M_TASK], 1 },
		{ m[M_IS_SET], m[M_TASK], 1 }, { m[M_CORO], m[M_TASK], 8 },       { m[M_NODE], m[M_TASK] - 8, 8 },
	};
	const struct field of_states[] = {
		{ m[M_INTERPRETER_TASKS], m[M_INTERPRETER] - 8, 8 },
		{ m[M_LOOP], m[M_THREAD], 8 },
		{ m[M_RUNNING], m[M_THREAD], 8 },
		{ m[M_THREAD_TASKS], m[M_THREAD] - 8, 8 },
	};

	return all_inside(of_task, COUNT(of_task), header, PYTHON_OBJECT_BYTES) &&
	       all_inside(of_states, COUNT(of_states), 8, MAX_STATE);
}

static bool is_table(const uint64_t *w, uint16_t header)
{
	const struct field fields[] = {
		{ w[W_SET_USED], w[W_SET], 8 },  { w[W_SET_TABLE], w[W_SET], 8 },  { w[W_SET_MASK], w[W_SET], 8 },
		{ w[W_INT_TAG], w[W_INT], 8 },   { w[W_INT_DIGITS], w[W_INT], 4 }, { w[W_GEN_FRAME], w[W_GEN], 8 },
		{ w[W_GEN_STATE], w[W_GEN], 1 },
	};

	return all_inside(fields, COUNT(fields), header, PYTHON_OBJECT_BYTES) && w[W_STACK] % 8 == 0 &&
	       w[W_FRAME] <= PYTHON_OBJECT_BYTES && w[W_STACK] < w[W_FRAME] && w[W_STACK] + 8 <= w[W_FRAME] &&
	       w[W_GEN_FRAME] + w[W_FRAME] <= PYTHON_OBJECT_BYTES && w[W_NODE_NEXT] == 0 && w[W_NODE_PREV] == 8;
}

int python_asyncio__read(const struct foreign_memory *memory, const struct python_process *process, uint64_t table,
			 struct python_asyncio *out, struct so_error *err)
{
	uint16_t version = process->layout.version, header = python_layout__header(&process->layout);
	uint64_t raw[PYTHON_DEBUG_OFFSETS_BYTES / 8], w[N_WORDS], m[N_MODULE];

	if (version < PYTHON_ASYNCIO_OLDEST || version - PYTHON_ASYNCIO_OLDEST >= COUNT(places))
		return so_err(err, -ENOTSUP, "tasks of CPython 3.%u are not known: they are of 3.%u and 3.%u",
			      version & 0xff, PYTHON_ASYNCIO_OLDEST & 0xff, PYTHON_LAYOUT_NEWEST & 0xff);
	if (!foreign_memory__read(memory, process->runtime, raw, sizeof(raw)) ||
	    !foreign_memory__read(memory, table, m, sizeof(m)))
		return so_err(err, -EFAULT, "asyncio's tables cannot be read now");
	for (size_t i = 0; i < N_WORDS; i++)
		w[i] = raw[places[version - PYTHON_ASYNCIO_OLDEST][i]];
	if (!is_table(w, header))
		return so_err(err, -EINVAL, "CPython 3.%u: _Py_DebugOffsets of coroutines are damaged", version & 0xff);
	if (!is_module(m, header))
		return so_err(err, -EINVAL, "CPython 3.%u: asyncio's table of offsets is damaged", version & 0xff);
	*out = (struct python_asyncio){
		.version = version,
		.task_bytes = (uint16_t)m[M_TASK],
		.name = (uint16_t)m[M_NAME],
		.awaited_by = (uint16_t)m[M_AWAITED_BY],
		.coro = (uint16_t)m[M_CORO],
		.is_task = (uint16_t)m[M_IS_TASK],
		.awaited_by_is_set = (uint16_t)m[M_IS_SET],
		.node = (uint16_t)m[M_NODE],
		.interpreter_tasks = (uint32_t)m[M_INTERPRETER_TASKS],
		.thread_tasks = (uint32_t)m[M_THREAD_TASKS],
		.thread_loop = (uint32_t)m[M_LOOP],
		.thread_task = (uint32_t)m[M_RUNNING],
		.gen_frame = (uint16_t)w[W_GEN_FRAME],
		.gen_state = (uint16_t)w[W_GEN_STATE],
		.frame_stack = (uint16_t)w[W_STACK],
		.set_used = (uint16_t)w[W_SET_USED],
		.set_mask = (uint16_t)w[W_SET_MASK],
		.set_table = (uint16_t)w[W_SET_TABLE],
		.int_tag = (uint16_t)w[W_INT_TAG],
		.int_digits = (uint16_t)w[W_INT_DIGITS],
		.delegate_slot = version > PYTHON_ASYNCIO_OLDEST ? 2 : 1,
	};
	return 0;
}

enum python_frame_state python_asyncio__frame_state(const struct python_asyncio *asyncio, uint8_t state)
{
	/* From -3 on in 3.14; from 0 on in 3.15, whose 3 is "delegating" while another thread looks at it. */
	static const uint8_t in_3_14[] = { PYTHON_FRAME_CREATED,   PYTHON_FRAME_SUSPENDED, PYTHON_FRAME_DELEGATING,
					   PYTHON_FRAME_EXECUTING, PYTHON_FRAME_CLEARED,   PYTHON_FRAME_UNKNOWN,
					   PYTHON_FRAME_UNKNOWN,   PYTHON_FRAME_CLEARED };
	static const uint8_t in_3_15[] = { PYTHON_FRAME_CREATED,    PYTHON_FRAME_SUSPENDED, PYTHON_FRAME_DELEGATING,
					   PYTHON_FRAME_DELEGATING, PYTHON_FRAME_EXECUTING, PYTHON_FRAME_CLEARED };
	uint8_t from_first = (uint8_t)(state + 3);

	if (asyncio->version == PYTHON_ASYNCIO_OLDEST)
		return from_first < COUNT(in_3_14) ? in_3_14[from_first] : PYTHON_FRAME_UNKNOWN;
	return state < COUNT(in_3_15) ? in_3_15[state] : PYTHON_FRAME_UNKNOWN;
}
