// SPDX-License-Identifier: GPL-2.0-or-later
/* What GET /v1/targets/ID/tasks answers: the tasks of a process's event loops (.design/tasks.md). */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/os/proc_info.h"
#include "daemon/python/python_names.h"
#include "daemon/targets/task_look.h"

#define NO_CHAIN UINT32_MAX
/* Of frames of chains that differ; beyond, tasks are said without their chains. What a frame takes beside its texts. */
#define MOST_CHAIN_BYTES (64u << 20)
#define FRAME_BYTES      2048

struct answer {
	struct engine *engine;
	struct caller caller;
	pid_t pid;
	const struct process *of; /* compared, not used, without the lock */
	unsigned execs;
	struct python_process python; /* a copy */
	uint64_t table;
	struct task_look look;
	struct python_names *names;
	json_t *tasks, *chains;
	json_t *chain_numbers; /* a chain's frames as text: its number */
	size_t chain_bytes;
	struct u64_table numbers; /* task_look__key() of a task's address: its number in `tasks` */
};

static const char *const states[] = {
	[PYTHON_TASK_CREATED] = "created", [PYTHON_TASK_READY] = "ready", [PYTHON_TASK_WAITING] = "waiting",
	[PYTHON_TASK_RUNNING] = "running", [PYTHON_TASK_ENDED] = "ended",
};

/* With the lock. */
static int choose(struct answer *a, uint32_t id, struct so_error *err)
{
	const struct target *t = targets__find(&a->engine->targets, id);
	const struct process *p = process_table__find(a->engine->processes, a->pid);

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (!p || p->gone || (a->pid != t->info.pid && p->kernel.slot != target__proper(t)->slot))
		return so_err(err, -ESRCH, "process %d has ended, or is none of target %u", a->pid, id);
	if (!p->python && p->python_file && !p->python_refused)
		return so_err(err, -ENODATA, "the Python interpreter of process %d is starting", a->pid);
	if (!p->python && t->python.problem[0])
		return so_err(err, -ENODATA, "process %d: %s", a->pid, t->python.problem);
	if (!p->python)
		return so_err(err, -ENODATA, "process %d has no Python interpreter", a->pid);
	if (p->python->layout.version < PYTHON_ASYNCIO_OLDEST)
		return so_err(err, -ENODATA,
			      "process %d runs CPython 3.%u: tasks can be read from outside from 3.%u on", a->pid,
			      p->python->layout.version & 0xff, PYTHON_ASYNCIO_OLDEST & 0xff);
	if (!p->asyncio_table)
		return so_err(err, -ENODATA, "process %d has not imported asyncio", a->pid);
	a->of = p;
	a->execs = p->execs;
	a->python = *p->python;
	a->table = p->asyncio_table;
	return 0;
}

/* What was read may be of another program by now. */
static int check_same(struct answer *a, struct so_error *err)
{
	const struct process *p;
	bool same;

	pthread_mutex_lock(&a->engine->lock);
	p = process_table__find(a->engine->processes, a->pid);
	same = p && p == a->of && p->execs == a->execs && process__is_readable(p);
	pthread_mutex_unlock(&a->engine->lock);
	if (!same)
		return so_err(err, -ESRCH, "process %d has ended, or executed another program", a->pid);
	return process_access__check(a->pid, a->caller, err);
}

static json_t *frame_json(struct answer *a, const struct foreign_memory *memory, const struct python_task_frame *f)
{
	const struct python_code *code;
	int why;

	code = python_names__get(a->names, memory, &a->python.layout, f->code, f->sum, &why);
	a->chain_bytes += FRAME_BYTES + (code ? strlen(code->name) + strlen(code->filename) : 0);
	if (!code)
		return json_pack("{s:s, s:s, s:i}", "function",
				 why == -ESTALE ? "[python:stale]" : "[python:unreadable]", "file", "", "line", 0);
	return json_pack("{s:s, s:s, s:i}", "function", code->name, "file", code->filename, "line",
			 python_code__line(code, a->python.layout.version, f->instruction));
}

static json_t *frames_json(struct answer *a, const struct foreign_memory *memory, const struct python_task *task)
{
	json_t *frames = json_array();

	for (unsigned i = 0; frames && i < task->n_frames; i++)
		if (json_array_append_new(frames, frame_json(a, memory, &task->frames[i]))) {
			json_decref(frames);
			return NULL;
		}
	return frames;
}

/* By its code objects and instructions, which make its text. */
static void chain_key(const struct python_task *task, char *key, size_t bytes)
{
	size_t n = 0;

	key[0] = '\0';
	for (unsigned i = 0; i < task->n_frames && n < bytes; i++)
		n += (size_t)snprintf(key + n, bytes - n, "%" PRIx64 ",%" PRIx64 ",%x;", task->frames[i].code,
				      task->frames[i].sum, task->frames[i].instruction);
}

/* NO_CHAIN: no memory. The task is cut where there are too many chains. */
static uint32_t chain_number(struct answer *a, const struct foreign_memory *memory, struct python_task *task)
{
	char key[PYTHON_TASK_FRAMES * 48];
	const json_t *known;
	size_t n = json_array_size(a->chains);

	chain_key(task, key, sizeof(key));
	if (a->chain_bytes > MOST_CHAIN_BYTES && !json_object_get(a->chain_numbers, key)) {
		task->n_frames = 0;
		task->cut = true;
		chain_key(task, key, sizeof(key));
	}
	known = json_object_get(a->chain_numbers, key);
	if (known)
		return (uint32_t)json_integer_value(known);
	if (json_array_append_new(a->chains, frames_json(a, memory, task)) ||
	    json_object_set_new(a->chain_numbers, key, json_integer((json_int_t)n)))
		return NO_CHAIN;
	return (uint32_t)n;
}

/* Addresses for now: those that are awaited may not be known yet. */
static json_t *waiters_json(const struct python_task *task)
{
	json_t *waiters = json_array();

	for (unsigned i = 0; waiters && i < task->n_awaited_by; i++)
		if (json_array_append_new(waiters, json_integer((json_int_t)task->awaited_by[i]))) {
			json_decref(waiters);
			return NULL;
		}
	return waiters;
}

static bool add_task(void *context, const struct foreign_memory *memory, const struct python_task_place *place,
		     const struct python_task *task)
{
	struct answer *a = context;
	struct python_task told = *task;
	uint32_t chain = chain_number(a, memory, &told);
	json_t *json = chain == NO_CHAIN
			       ? NULL
			       : json_pack("{s:s, s:s, s:I, s:b, s:o, s:b}", "name", task->name, "state",
					   states[task->state], "chain", (json_int_t)chain, "cut", (int)told.cut,
					   "awaited_by", waiters_json(task), "more_waiters", (int)task->more_waiters);

	if (!json ||
	    u64_table__set(&a->numbers, task_look__key(&a->look, place->task), (uint32_t)json_array_size(a->tasks))) {
		json_decref(json);
		return false;
	}
	json_object_set_new(json, "thread", json_integer((json_int_t)task_look__thread(&a->look, place)));
	return !json_array_append_new(a->tasks, json);
}

/* Addresses become numbers; of a task that was not seen there is none. */
static int number_waiters(struct answer *a)
{
	json_t *task;
	size_t i;

	json_array_foreach (a->tasks, i, task) {
		json_t *waiters = json_object_get(task, "awaited_by"), *numbers = json_array();

		for (size_t k = 0; numbers && k < json_array_size(waiters); k++) {
			uint64_t address = (uint64_t)json_integer_value(json_array_get(waiters, k));
			uint32_t number;

			if (u64_table__get(&a->numbers, task_look__key(&a->look, address), &number))
				json_array_append_new(numbers, json_integer(number));
			else
				json_object_set_new(task, "more_waiters", json_true());
		}
		if (json_object_set_new(task, "awaited_by", numbers))
			return -ENOMEM;
	}
	return 0;
}

static json_t *loops_json(const struct answer *a)
{
	json_t *loops = json_array();

	for (unsigned i = 0; loops && i < a->look.n_threads; i++)
		if (a->look.runs_loop[i])
			json_array_append_new(loops, json_integer((json_int_t)a->look.threads[i].native_id));
	return loops;
}

static json_t *document(struct answer *a)
{
	const struct task_look *look = &a->look;
	char version[16];

	engine_python_version(
		a->python.layout.version | (a->python.layout.free_threaded ? TARGET_PYTHON_FREE_THREADED : 0), version);
	return json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:f, s:o, s:O, s:O}", "pid", (int)a->pid, "python",
			 version, "found", (json_int_t)look->n, "changed", (json_int_t)look->changed, "unread",
			 (json_int_t)look->unread, "ended", (json_int_t)look->ended, "list_changed",
			 (int)look->list_changed, "more", (int)look->more, "seconds", (double)look->took_ns / 1e9,
			 "loops", loops_json(a), "tasks", a->tasks, "chains", a->chains);
}

static int look_at(struct answer *a, json_t **out, struct so_error *err)
{
	int ret;

	a->tasks = json_array();
	a->chains = json_array();
	a->chain_numbers = json_object();
	if (!a->tasks || !a->chains || !a->chain_numbers || python_names__new(0, &a->names))
		return so_err(err, -ENOMEM, "out of memory");
	ret = task_look__at(a->pid, &a->python, a->table, &a->look, add_task, a, err);
	/* No fault of who asks. */
	if (ret == -EINVAL || ret == -ENOTSUP)
		ret = -ENODATA;
	if (ret == -EFAULT)
		ret = -EBUSY;
	ret = ret ?: check_same(a, err);
	if (ret)
		return ret;
	*out = number_waiters(a) ? NULL : document(a);
	return *out ? 0 : so_err(err, -ENOMEM, "out of memory");
}

static void release(struct answer *a)
{
	task_look__release(&a->look);
	python_names__free(a->names);
	json_decref(a->tasks);
	json_decref(a->chains);
	json_decref(a->chain_numbers);
	u64_table__release(&a->numbers);
	free(a);
}

int engine__tasks(struct engine *e, uint32_t id, pid_t pid, struct caller caller, json_t **out, struct so_error *err)
{
	struct answer *a = calloc(1, sizeof(*a));
	struct target_info info;
	int ret = a ? engine__info(e, id, &info) : -ENOMEM;

	if (ret) {
		free(a);
		return ret == -ENOENT ? so_err(err, ret, "there is no target %u", id)
				      : so_err(err, ret, "out of memory");
	}
	a->engine = e;
	a->caller = caller;
	a->pid = pid ?: info.pid;
	ret = process_access__check(a->pid, caller, err);
	if (!ret) {
		pthread_mutex_lock(&e->lock);
		ret = choose(a, id, err);
		pthread_mutex_unlock(&e->lock);
	}
	ret = ret ?: look_at(a, out, err);
	release(a);
	return ret;
}
