// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A suspended coroutine has its frame in itself, and what it awaits on top of that frame's stack: so one leads to the
 * next. Those of a running task lie among the frames of its thread.
 */
#include "daemon/python/python_task.h"

#include <errno.h>
#include <string.h>

#include "daemon/python/python_coroutine.h"
#include "daemon/python/python_object.h"
#include "daemon/python/python_str.h"
#include "stakeout/cleanup.h"
#include "stakeout/utf8.h"

#define TAG_BITS      3ull
#define MAX_MASK      (1u << 20) /* of a set; larger ones are garbage */
#define SET_ENTRIES   64u        /* that are looked at */
#define SET_DEPTH     4u         /* of futures that stand between two tasks */
#define INT_SIZE_BITS 3
#define INT_SIGN      3
#define INT_DIGIT     30

struct set_entry {
	uint64_t key, hash;
};

static void cut_name(const char *text, char *name)
{
	size_t n = 0, step;

	while (text[n] && (step = utf8__sequence(text + n, strlen(text + n))) && n + step < PYTHON_TASK_NAME_BYTES)
		n += step;
	memcpy(name, text, n);
	name[n] = '\0';
}

/* A task that was given no name has a number, of which its name is made when somebody asks. */
static int read_number(struct python_task_reader *r, uint64_t address, char *name)
{
	const struct python_asyncio *a = r->asyncio;
	uint32_t digits[2] = { 0 };
	uint64_t tag, n;

	if (!foreign_memory__read(&r->memory, address + a->int_tag, &tag, sizeof(tag)))
		return -EFAULT;
	n = tag >> INT_SIZE_BITS;
	if (n > 2 || (tag & INT_SIGN) > 1)
		return -EAGAIN;
	if (n && !foreign_memory__read(&r->memory, address + a->int_digits, digits, n * sizeof(digits[0])))
		return -EFAULT;
	snprintf(name, PYTHON_TASK_NAME_BYTES, "Task-%llu",
		 (unsigned long long)digits[1] << INT_DIGIT | (digits[0] & ((1u << INT_DIGIT) - 1)));
	return 0;
}

static int read_name(struct python_task_reader *r, uint64_t address, char *name)
{
	_cleanup_free_ char *text = NULL;
	uint64_t type;
	int ret;

	if (!python_coroutine__type(r, address, &type))
		return -EAGAIN;
	switch (python_coroutine__kind(r, type)) {
	case PYTHON_TYPE_INT:
		return read_number(r, address, name);
	case PYTHON_TYPE_STR:
		ret = python_str__read(&r->memory, &r->process->layout, address, &text);
		if (!ret)
			cut_name(text, name);
		return ret;
	default:
		snprintf(name, PYTHON_TASK_NAME_BYTES, "?");
		return 0;
	}
}

static int add_waiters(struct python_task_reader *r, uint64_t waiter, bool is_set, unsigned depth,
		       struct python_task *out);

/* A task, or a future that is awaited itself. */
static int add_waiter(struct python_task_reader *r, uint64_t waiter, unsigned depth, struct python_task *out)
{
	const struct python_asyncio *a = r->asyncio;
	uint8_t is_task, is_set;
	uint64_t next;

	if (!foreign_memory__read(&r->memory, waiter + a->is_task, &is_task, 1))
		return -EFAULT;
	if (is_task == 1) {
		out->more_waiters |= out->n_awaited_by == PYTHON_TASK_WAITERS;
		if (out->n_awaited_by < PYTHON_TASK_WAITERS)
			out->awaited_by[out->n_awaited_by++] = waiter;
		return 0;
	}
	if (depth == SET_DEPTH)
		return 0;
	if (!foreign_memory__read(&r->memory, waiter + a->awaited_by, &next, sizeof(next)) ||
	    !foreign_memory__read(&r->memory, waiter + a->awaited_by_is_set, &is_set, 1))
		return -EFAULT;
	return next ? add_waiters(r, next & ~TAG_BITS, is_set == 1, depth + 1, out) : 0;
}

/* Of a large set, what stands in its first places. */
static int add_set(struct python_task_reader *r, uint64_t set, unsigned depth, struct python_task *out)
{
	const struct python_asyncio *a = r->asyncio;
	struct set_entry entries[SET_ENTRIES];
	uint64_t used, mask, table;
	size_t n, seen = 0;
	int ret = 0;

	if (!foreign_memory__read(&r->memory, set + a->set_used, &used, sizeof(used)) ||
	    !foreign_memory__read(&r->memory, set + a->set_mask, &mask, sizeof(mask)) ||
	    !foreign_memory__read(&r->memory, set + a->set_table, &table, sizeof(table)))
		return -EFAULT;
	if (mask > MAX_MASK || used > mask + 1 || (mask & (mask + 1)))
		return -EAGAIN;
	n = mask < SET_ENTRIES ? mask + 1 : SET_ENTRIES;
	if (!foreign_memory__read(&r->memory, table, entries, n * sizeof(entries[0])))
		return -EFAULT;
	for (size_t i = 0; !ret && i < n && out->n_awaited_by < PYTHON_TASK_WAITERS; i++) {
		/* -1: what stood there was removed. */
		if (!entries[i].key || entries[i].hash == UINT64_MAX)
			continue;
		seen++;
		ret = add_waiter(r, entries[i].key, depth, out);
	}
	out->more_waiters |= seen < used;
	return ret;
}

static int add_waiters(struct python_task_reader *r, uint64_t waiter, bool is_set, unsigned depth,
		       struct python_task *out)
{
	return is_set ? add_set(r, waiter, depth, out) : add_waiter(r, waiter, depth, out);
}

/* It is in a list, and its neighbours know of it; or its thread runs it, which may be one that was never in a list. */
static int check_listed(struct python_task_reader *r, uint64_t task, uint64_t next, uint64_t prev, bool running)
{
	uint64_t node = task + r->asyncio->node, back, on;

	if (!next && !prev)
		return running ? 0 : -EAGAIN;
	if (!foreign_memory__read(&r->memory, next + 8, &back, sizeof(back)) ||
	    !foreign_memory__read(&r->memory, prev, &on, sizeof(on)))
		return -EFAULT;
	return back == node && on == node ? 0 : -EAGAIN;
}

static int read_running(struct python_task_reader *r, uint64_t thread, uint64_t *task)
{
	*task = 0;
	if (thread && !foreign_memory__read(&r->memory, thread + r->asyncio->thread_task, task, sizeof(*task)))
		return -EFAULT;
	*task &= ~TAG_BITS;
	return 0;
}

int python_task__read(struct python_task_reader *reader, uint64_t task, uint64_t thread, struct python_task *out)
{
	const struct python_asyncio *a = reader->asyncio;
	struct python_object object;
	uint64_t running, waiter;
	int ret;

	*out = (struct python_task){ .state = PYTHON_TASK_WAITING };
	if (!python_coroutine__read_object(reader, task, a->task_bytes, &object))
		return -EFAULT;
	if (object.bytes[a->is_task] != 1)
		return -EAGAIN;
	ret = read_running(reader, thread, &running);
	ret = ret
		      ?: check_listed(reader, task, python_object__u64(&object, a->node),
				      python_object__u64(&object, a->node + 8u), running == task);
	ret = ret ?: read_name(reader, python_object__u64(&object, a->name) & ~TAG_BITS, out->name);
	ret = ret
		      ?: python_coroutine__read(reader, python_object__u64(&object, a->coro) & ~TAG_BITS,
						running == task ? thread : 0, out);
	waiter = python_object__u64(&object, a->awaited_by) & ~TAG_BITS;
	if (!ret && waiter)
		ret = add_waiters(reader, waiter, object.bytes[a->awaited_by_is_set] == 1, 0, out);
	return ret;
}
