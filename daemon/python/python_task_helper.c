// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_task_helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/os/process_memory.h"
#include "daemon/os/memory_lock.h"
#include "daemon/python/python_noted_memory.h"
#include "stakeout/cleanup.h"

/* A task that changes is read so often, one time right after the other. */
#define ATTEMPTS 8
/* A machine may be so busy that nobody answers in time. */
#define TRIES    4
#define PAUSE_NS 20000000

struct request {
	pid_t pid;
	bool hasty;
	uint64_t address, bytes; /* of memory; 0 bytes: none is wanted */
	unsigned n;              /* places; 0: walk */
	struct python_process process;
	struct python_asyncio asyncio;
	struct python_task_walk walk;
	struct python_task_place places[PYTHON_TASK_READ_ROOM];
};

struct walk_answer {
	int ret;
	unsigned n;
	struct python_task_walk walk;
	uint64_t tasks[PYTHON_TASK_WALK_ROOM];
};

struct read_answer {
	unsigned n;
	struct python_task_reading tasks[PYTHON_TASK_READ_ROOM];
};

_Static_assert(sizeof(struct request) <= MEMORY_HELPER_REQUEST_BYTES, "a request fits");
_Static_assert(sizeof(struct walk_answer) <= MEMORY_HELPER_ANSWER_BYTES, "what was walked fits");
_Static_assert(sizeof(struct read_answer) <= MEMORY_HELPER_ANSWER_BYTES, "what was read fits");

static bool read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	return process_memory__get(context, address, to, bytes) == bytes;
}

static size_t walk(const struct request *r, struct walk_answer *a)
{
	_cleanup_(process_memory) struct process_memory process = process_memory__of(r->pid);
	const struct foreign_memory memory = { read_process, &process };

	a->walk = r->walk;
	a->ret = python_task_list__walk(&memory, &r->asyncio, &a->walk, a->tasks, PYTHON_TASK_WALK_ROOM, &a->n);
	return offsetof(struct walk_answer, tasks) + a->n * sizeof(a->tasks[0]);
}

static int read_task(struct python_task_reader *reader, struct python_noted_memory *noted,
		     struct process_memory *process, const struct python_task_place *place, struct python_task *task)
{
	int ret = -EAGAIN;

	for (unsigned i = 0; i < ATTEMPTS && ret; i++) {
		python_noted_memory__begin(noted, process);
		ret = python_task__read(reader, place->task, place->thread, task);
		if (!ret && !python_noted_memory__is_same(noted))
			ret = -EAGAIN;
		if (noted->full)
			return -E2BIG;
	}
	return ret;
}

static size_t read_tasks(const struct request *r, struct read_answer *a)
{
	_cleanup_free_ struct python_noted_memory *noted = malloc(sizeof(*noted));
	_cleanup_(process_memory) struct process_memory process = process_memory__of(r->pid);
	struct python_task_reader reader = {
		.types = { read_process, &process }, .process = &r->process, .asyncio = &r->asyncio, .hasty = r->hasty
	};

	if (!noted)
		return 0;
	reader.memory = python_noted_memory__reader(noted);
	a->n = r->n;
	for (unsigned i = 0; i < r->n; i++)
		a->tasks[i].ret = read_task(&reader, noted, &process, &r->places[i], &a->tasks[i].task);
	return offsetof(struct read_answer, tasks) + r->n * sizeof(a->tasks[0]);
}

/* An answer of one byte: it cannot be read. */
static size_t read_memory(const struct request *r, uint8_t *answer)
{
	if (process_memory__read(r->pid, r->address, answer + 1, r->bytes) == r->bytes)
		return r->bytes + 1;
	return 1;
}

size_t python_task_helper__work(const void *request, size_t bytes, void *answer)
{
	const struct request *r = request;

	if (bytes != sizeof(*r) || r->n > PYTHON_TASK_READ_ROOM || r->bytes > PYTHON_TASK_PIECE_BYTES)
		return 0;
	if (r->bytes)
		return read_memory(r, answer);
	return r->n ? read_tasks(r, answer) : walk(r, answer);
}

/* One that took too long keeps the others about this process away for a while, so it is asked for again. */
static size_t work(const struct request *request, unsigned things, void *answer)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < TRIES && !bytes; i++) {
		if (i)
			nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
		bytes = memory_lock__work(request->pid, request, sizeof(*request), things, answer);
	}
	return bytes;
}

bool python_task_helper__read_memory(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct request request = { .pid = pid, .address = address, .bytes = bytes };
	_cleanup_free_ uint8_t *answer = malloc(MEMORY_HELPER_ANSWER_BYTES);

	if (!answer || !bytes || bytes > PYTHON_TASK_PIECE_BYTES || work(&request, 8, answer) != bytes + 1)
		return false;
	memcpy(to, answer + 1, bytes);
	return true;
}

static struct request request_of(const struct python_task_source *source)
{
	return (struct request){ .pid = source->pid, .process = *source->process, .asyncio = *source->asyncio };
}

int python_task_helper__walk(const struct python_task_source *source, struct python_task_walk *walk, uint64_t *tasks,
			     unsigned *n)
{
	struct request request = request_of(source);
	_cleanup_free_ struct walk_answer *a = malloc(MEMORY_HELPER_ANSWER_BYTES);
	size_t bytes;

	*n = 0;
	if (!a)
		return -ENOMEM;
	request.walk = *walk;
	bytes = work(&request, 8, a);
	if (bytes < offsetof(struct walk_answer, tasks) || a->n > PYTHON_TASK_WALK_ROOM ||
	    bytes != offsetof(struct walk_answer, tasks) + a->n * sizeof(a->tasks[0]))
		return -EFAULT;
	*walk = a->walk;
	*n = a->n;
	memcpy(tasks, a->tasks, a->n * sizeof(tasks[0]));
	return a->ret;
}

int python_task_helper__read(const struct python_task_source *source, const struct python_task_place *places,
			     unsigned n, bool hasty, struct python_task_reading *out)
{
	struct request request = request_of(source);
	_cleanup_free_ struct read_answer *a = malloc(MEMORY_HELPER_ANSWER_BYTES);
	size_t bytes;

	if (!a)
		return -ENOMEM;
	request.hasty = hasty;
	request.n = n;
	memcpy(request.places, places, n * sizeof(places[0]));
	bytes = work(&request, n, a);
	if (bytes != offsetof(struct read_answer, tasks) + n * sizeof(a->tasks[0]) || a->n != n)
		return -EFAULT;
	memcpy(out, a->tasks, n * sizeof(out[0]));
	return 0;
}
