// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/task_look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/os/clock.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"

#define TAG_BITS 3ull
/* Lists and tasks that change are read so often. */
#define WALKS    5
#define ATTEMPTS 3

struct looking {
	struct task_look *look;
	struct python_task_source source;
	struct python_asyncio asyncio;
	uint64_t until_ns;
	task_look_found found;
	void *context;
	struct foreign_memory memory;                    /* for what few reads are enough */
	size_t *left, n_left;                            /* places of tasks that are to be read */
	struct python_thread threads[TASK_LOOK_THREADS]; /* while they are read */
	uint64_t tasks[PYTHON_TASK_WALK_ROOM];
	struct python_task_reading readings[PYTHON_TASK_READ_ROOM];
};

static bool read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct looking *l = context;

	for (size_t done = 0; done < bytes;) {
		size_t piece = bytes - done < PYTHON_TASK_PIECE_BYTES ? bytes - done : PYTHON_TASK_PIECE_BYTES;

		if (clock__now_ns() >= l->until_ns ||
		    !python_task_helper__read_memory(l->source.pid, address + done, (uint8_t *)to + done, piece))
			return false;
		done += piece;
	}
	return true;
}

static int add(struct looking *l, uint64_t task, uint64_t thread)
{
	struct task_look *look = l->look;
	uint32_t at;

	if (u64_table__get(&look->known, task_look__key(look, task), &at))
		return 0;
	if (look->n == TASK_LOOK_MOST) {
		look->more = true;
		return 0;
	}
	if (ARRAY_RESERVE(look->places, look->capacity, look->n + 1) ||
	    u64_table__set(&look->known, task_look__key(look, task), (uint32_t)look->n))
		return -ENOMEM;
	look->places[look->n++] = (struct python_task_place){ task, thread };
	return 0;
}

static int walk_list(struct looking *l, uint64_t head, uint64_t thread)
{
	struct python_task_walk walk = { .head = head };
	size_t walked = 0;
	unsigned n;
	int ret = 0, added = 0;

	while (!ret && !added && !walk.ended) {
		if (walked > TASK_LOOK_MOST) {
			l->look->more = true;
			return 0;
		}
		if (clock__now_ns() >= l->until_ns)
			return -EAGAIN;
		ret = python_task_helper__walk(&l->source, &walk, l->tasks, &n);
		for (unsigned i = 0; !added && i < n; i++)
			added = add(l, l->tasks[i], thread);
		walked += n;
	}
	return added ?: ret == -EFAULT ? -EAGAIN : ret;
}

/* What it runs may be in no list: one that was begun at once (eager_task_factory) and has not waited yet. */
static int walk_thread(struct looking *l, unsigned i)
{
	uint64_t state = l->look->threads[i].state, loop, task;
	int ret;

	if (!foreign_memory__read(&l->memory, state + l->asyncio.thread_loop, &loop, sizeof(loop)) ||
	    !foreign_memory__read(&l->memory, state + l->asyncio.thread_task, &task, sizeof(task)))
		return -EAGAIN;
	l->look->runs_loop[i] = loop != 0;
	task &= ~TAG_BITS;
	ret = task ? add(l, task, state) : 0;
	return ret ?: walk_list(l, state + l->asyncio.thread_tasks, state);
}

static bool is_new_interpreter(const struct task_look *look, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (look->threads[k].interpreter == look->threads[i].interpreter)
			return false;
	return true;
}

/* -EAGAIN: not all lists were walked to their ends. */
static int walk_once(struct looking *l)
{
	struct task_look *look = l->look;
	int ret = 0, n = python_process__threads(&l->memory, l->source.process, l->threads, TASK_LOOK_THREADS);

	if (n < 0)
		return -EAGAIN;
	memcpy(look->threads, l->threads, (size_t)n * sizeof(*look->threads));
	memset(look->runs_loop, 0, sizeof(look->runs_loop));
	look->n_threads = (unsigned)n;
	look->more |= n == TASK_LOOK_THREADS;
	for (unsigned i = 0; i < look->n_threads; i++) {
		int one = walk_thread(l, i), ended = 0;

		if (is_new_interpreter(look, i)) /* with the tasks of threads that have ended */
			ended = walk_list(l, look->threads[i].interpreter + l->asyncio.interpreter_tasks, 0);
		if (one == -ENOMEM || ended == -ENOMEM)
			return -ENOMEM;
		ret = ret ?: one ?: ended;
	}
	return ret;
}

static int walk(struct looking *l)
{
	int ret = -EAGAIN;

	for (unsigned i = 0; i < WALKS && ret == -EAGAIN && clock__now_ns() < l->until_ns; i++)
		ret = walk_once(l);
	l->look->list_changed = ret == -EAGAIN;
	return ret == -EAGAIN ? 0 : ret;
}

/* Those that changed while they were read are left once more. False: the look is over. */
static bool report(struct looking *l, const size_t *which, unsigned n, size_t *n_next)
{
	struct task_look *look = l->look;

	for (unsigned i = 0; i < n; i++) {
		const struct python_task_reading *r = &l->readings[i];

		if (r->ret) {
			l->left[(*n_next)++] = which[i];
		} else if (r->task.state == PYTHON_TASK_ENDED) {
			look->ended++;
		} else {
			look->seen++;
			if (!l->found(l->context, &l->memory, &look->places[which[i]], &r->task))
				return false;
		}
	}
	return true;
}

static int read_left(struct looking *l, bool hasty)
{
	struct python_task_place places[PYTHON_TASK_READ_ROOM];
	size_t which[PYTHON_TASK_READ_ROOM], n_next = 0, i = 0;
	int ret = 0;

	while (i < l->n_left) {
		unsigned n = 0;

		for (; n < PYTHON_TASK_READ_ROOM && i + n < l->n_left; n++) {
			which[n] = l->left[i + n];
			places[n] = l->look->places[which[n]];
		}
		if (clock__now_ns() >= l->until_ns)
			break;
		ret = python_task_helper__read(&l->source, places, n, hasty, l->readings);
		if (ret == -EFAULT)
			l->look->unread += n;
		else if (ret || !report(l, which, n, &n_next))
			return -ENOMEM;
		i += n;
	}
	l->look->unread += l->n_left - i;
	l->n_left = n_next;
	return 0;
}

/* Those that have ended meanwhile are no tasks any more, and are found in no list. */
static int look_at(struct looking *l)
{
	struct task_look *look = l->look;
	int ret = walk(l);

	if (ret)
		return ret;
	l->left = calloc(look->n + 1, sizeof(*l->left));
	if (!l->left)
		return -ENOMEM;
	for (size_t i = 0; i < look->n; i++)
		l->left[i] = i;
	l->n_left = look->n;
	for (unsigned i = 0; i < ATTEMPTS && l->n_left && !ret; i++)
		ret = read_left(l, i + 1 == ATTEMPTS);
	look->changed = l->n_left;
	return ret;
}

int task_look__at(pid_t pid, const struct python_process *process, uint64_t table, struct task_look *look,
		  task_look_found found, void *context, struct so_error *err)
{
	_cleanup_free_ struct looking *l = calloc(1, sizeof(*l));
	uint64_t begin_ns = clock__now_ns();
	int ret;

	if (!l)
		return so_err(err, -ENOMEM, "out of memory");
	if (getrandom(&look->factor, sizeof(look->factor), 0) != sizeof(look->factor))
		look->factor = begin_ns;
	look->factor |= 1;
	l->look = look;
	l->source = (struct python_task_source){ pid, process, &l->asyncio };
	l->until_ns = begin_ns + TASK_LOOK_NS;
	l->memory = (struct foreign_memory){ read_process, l };
	l->found = found;
	l->context = context;
	ret = python_asyncio__read(&l->memory, process, table, &l->asyncio, err);
	if (ret)
		return ret;
	ret = look_at(l);
	free(l->left);
	look->took_ns = clock__now_ns() - begin_ns;
	return ret ? so_err(err, ret, "out of memory") : 0;
}

uint64_t task_look__thread(const struct task_look *look, const struct python_task_place *place)
{
	for (unsigned i = 0; place->thread && i < look->n_threads; i++)
		if (look->threads[i].state == place->thread)
			return look->threads[i].native_id;
	return 0;
}

void task_look__release(struct task_look *look)
{
	free(look->places);
	u64_table__release(&look->known);
}
