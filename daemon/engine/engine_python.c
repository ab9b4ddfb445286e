// SPDX-License-Identifier: GPL-2.0-or-later
/* The interpreters of the processes that are watched: found, given to the kernel side, and their frames read. */
#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/os/limits.h"
#include "daemon/os/memory_lock.h"

/* An interpreter takes some 20 ms to start, with many modules a second. */
#define ASK_AGAIN_NS 10000000ull
#define ASK_SOON_NS  2000000000ull

static bool read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	return memory_lock__read(*(const pid_t *)context, address, to, bytes) == bytes;
}

static int find_build(struct engine *e, const struct so_python *walker, uint32_t *build)
{
	struct so_python *all = sampler__pythons(e->sampler);

	for (uint32_t i = 0; i < e->n_pythons; i++) {
		if (!memcmp(&all[i], walker, sizeof(*walker))) {
			*build = i + 1;
			return 0;
		}
	}
	if (e->n_pythons == SO_MAX_PYTHONS)
		return -ENOSPC;
	all[e->n_pythons] = *walker;
	*build = ++e->n_pythons;
	return 0;
}

static void say_problem(struct engine *e, const struct process *p, const char *text)
{
	struct target *t = p->kernel.slot < SO_MAX_SLOTS ? e->targets[p->kernel.slot] : NULL;

	if (t && !t->python_problem[0])
		snprintf(t->python_problem, sizeof(t->python_problem), "%s", text);
}

static void note_version(struct engine *e, const struct process *p)
{
	struct target *t = p->kernel.slot < SO_MAX_SLOTS ? e->targets[p->kernel.slot] : NULL;
	uint16_t version = p->python->layout.version;

	for (unsigned i = 0; t && i < TARGET_MAX_PYTHONS; i++) {
		if (t->pythons[i] == version)
			return;
		if (!t->pythons[i]) {
			t->pythons[i] = version;
			return;
		}
	}
}

bool engine_python_is_new(const struct process *p)
{
	return p->python_asked_ns && clock__now_ns() - p->python_asked_ns < ASK_SOON_NS;
}

/*
 * Soon, for a while: a process that is short has its Python frames for most of its life then. Whoever maps an interpreter and
 * never starts it is asked at the look at all processes.
 */
static void ask_again(struct engine *e, struct process *p)
{
	uint64_t now = clock__now_ns();

	if (!p->python_asked_ns)
		p->python_asked_ns = now;
	if (engine_python_is_new(p))
		e->python_again_ns = now + ASK_AGAIN_NS;
}

/* An interpreter that is not ready yet is asked again later. */
static void open_python(struct engine *e, struct process *p)
{
	struct foreign_memory memory = { read_process, &p->tgid };
	struct python_process found;
	struct so_error why = { "" };
	uint32_t build;
	int ret = python_process__open_running(&memory, p->python_file->python, p->python_bias, &found, &why);

	if (ret == -EAGAIN) {
		ask_again(e, p);
		return;
	}
	ret = ret ?: find_build(e, &found.walker, &build);
	if (!ret) {
		p->python = malloc(sizeof(*p->python));
		ret = p->python ? 0 : -ENOMEM;
	}
	if (ret) {
		p->python_refused = true;
		say_problem(e, p, why.text[0] ? why.text : "too many different builds of Python");
		return;
	}
	*p->python = found;
	note_version(e, p);
	process_table__set_python(e->processes, p, build);
}

void engine_find_python(struct engine *e, struct process *p, const struct process_scan *scan)
{
	for (size_t i = 0; !p->python_file && i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];
		const struct file_entry *file;
		bool known;

		file = file_registry__find(e->files, map, &known);
		if (file && file->python_problem)
			say_problem(e, p, file->python_problem);
		if (!file || !file->python ||
		    elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &p->python_bias))
			continue;
		p->python_file = file;
	}
	engine_retry_python(e, p);
}

void engine_retry_python(struct engine *e, struct process *p)
{
	if (p->python_file && !p->python && !p->python_refused && !p->gone)
		open_python(e, p);
}

static const struct python_function *failure(int why)
{
	static const struct python_function stale = { "[python:stale]", "", 0 },
					    unreadable = { "[python:unreadable]", "", 0 },
					    unnamed = { "[python:names-full]", "", 0 };

	return why == -ESTALE ? &stale : why == -ENOSPC ? &unnamed : &unreadable;
}

static const struct python_code *read_code(struct engine *e, struct process *p, const uint64_t *words, int *why)
{
	struct target *t = e->targets[p->kernel.slot];
	struct foreign_memory memory = { read_process, &p->tgid };

	if (!t->python_names && python_names__new(0, &t->python_names)) {
		*why = -ENOMEM;
		return NULL;
	}
	return python_names__get(t->python_names, &memory, &p->python->layout, SO_PYTHON_FRAME_CODE(words[0]),
				 words[1], why);
}

/* Puts what a frame is in the place of the kernel's words. False when it could not be read. */
static bool read_frame(struct engine *e, struct process *p, uint64_t *words)
{
	struct python_frame frame = { .entry = SO_PYTHON_FRAME_ENTRY(words[0]) };
	const struct python_code *code = NULL;
	int why = -EFAULT;

	if (p && p->python && p->kernel.slot < SO_MAX_SLOTS && e->targets[p->kernel.slot])
		code = read_code(e, p, words, &why);
	if (code) {
		frame.function = python_functions__get(e->python_functions, code->name, code->filename,
						       code->first_line);
		frame.line = python_code__line(code, p->python->layout.version,
					       SO_PYTHON_FRAME_INSTRUCTION(words[0]));
	}
	if (code && !frame.function) {
		limits__hit(LIMIT_PYTHON_NAMES, 1);
		code = NULL;
		why = -ENOSPC;
	}
	if (!frame.function)
		frame.function = failure(why);
	memcpy(words, &frame, sizeof(frame));
	return code;
}

bool engine_read_python(struct engine *e, pid_t tgid, uint64_t *words, size_t n)
{
	struct process *p = process_table__find(e->processes, tgid);
	bool all = true;

	for (size_t i = 0; i < n; i++)
		all &= read_frame(e, p, &words[i * SO_PYTHON_WORDS]);
	return all;
}
