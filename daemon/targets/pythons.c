// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/pythons.h"

#include <errno.h>

#include "daemon/os/clock.h"
#include "daemon/profile/python_calls.h"
#include "daemon/targets/steps.h"
#include "daemon/targets/targets.h"
#include "daemon/os/limits.h"
#include "daemon/os/memory_lock.h"

/* An interpreter takes some 20 ms to start, with many modules a second. */
#define ASK_AGAIN_NS 10000000ull
#define ASK_SOON_NS  2000000000ull

static struct target *target_of(const struct pythons *ps, const struct process *p)
{
	return p->kernel.slot < SO_MAX_SLOTS ? ps->targets[p->kernel.slot] : NULL;
}

static bool read_process(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct process *p = context;

	return memory_lock__read(p->tgid, address, to, bytes) == bytes && process__is_readable(p);
}

static int find_build(struct pythons *ps, const struct so_python *walker, uint32_t *build)
{
	struct so_python *all = sampler__pythons(ps->sampler);

	for (uint32_t i = 0; i < ps->n_builds; i++) {
		if (!memcmp(&all[i], walker, sizeof(*walker))) {
			*build = i + 1;
			return 0;
		}
	}
	if (ps->n_builds == SO_MAX_PYTHONS)
		return -ENOSPC;
	all[ps->n_builds] = *walker;
	*build = ++ps->n_builds;
	return 0;
}

static void say_problem(struct pythons *ps, const struct process *p, const char *text)
{
	struct target *t = target_of(ps, p);

	if (t && !t->python.problem[0])
		snprintf(t->python.problem, sizeof(t->python.problem), "%s", text);
}

static void note_version(struct pythons *ps, const struct process *p)
{
	struct target *t = target_of(ps, p);
	uint16_t version = p->python->layout.version;

	if (p->python->layout.free_threaded)
		version |= TARGET_PYTHON_FREE_THREADED;
	for (unsigned i = 0; t && i < TARGET_MAX_PYTHONS; i++) {
		if (t->python.versions[i] == version)
			return;
		if (!t->python.versions[i]) {
			t->python.versions[i] = version;
			return;
		}
	}
}

/* Asked for the first time a moment ago, and again soon if it was not ready. */
static bool is_new(const struct process *p)
{
	return p->python_asked_ns && clock__now_ns() - p->python_asked_ns < ASK_SOON_NS;
}

/* Soon at first, as a short process has its Python frames then. One that never starts its interpreter: at each look. */
static void ask_again(struct pythons *ps, struct process *p)
{
	uint64_t now = clock__now_ns();

	if (!p->python_asked_ns)
		p->python_asked_ns = now;
	if (is_new(p))
		ps->again_ns = now + ASK_AGAIN_NS;
}

/* An interpreter that is not ready yet is asked again later. */
static void open_python(struct pythons *ps, struct process *p)
{
	struct foreign_memory memory = { read_process, p };
	struct python_process found;
	struct so_error why = { "" };
	uint32_t build;
	int ret = python_process__open_running(&memory, p->python_file->python, p->python_bias, &found, &why);

	if (ret == -EAGAIN) {
		ask_again(ps, p);
		return;
	}
	ret = ret ?: find_build(ps, &found.walker, &build);
	if (!ret) {
		p->python = malloc(sizeof(*p->python));
		ret = p->python ? 0 : -ENOMEM;
	}
	if (ret) {
		p->python_refused = true;
		say_problem(ps, p, why.text[0] ? why.text : "too many different builds of Python");
		return;
	}
	*p->python = found;
	note_version(ps, p);
	process_table__set_python(ps->processes, p, build);
}

static void retry(void *context, struct process *p)
{
	if (p->python_file && !p->python && !p->python_refused && !p->gone)
		open_python(context, p);
}

static void find_asyncio(struct pythons *ps, struct process *p, const struct proc_map *map)
{
	const struct file_entry *file;
	uint64_t bias;
	bool known;

	file = file_registry__find(ps->files, map, &known);
	if (file && file->asyncio_table &&
	    !elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &bias))
		p->asyncio_table = file->asyncio_table + bias;
}

void pythons__find(struct pythons *ps, struct process *p, const struct process_scan *scan)
{
	for (size_t i = 0; !p->python_file && i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];
		const struct file_entry *file;
		bool known;

		file = file_registry__find(ps->files, map, &known);
		if (file && file->python_problem)
			say_problem(ps, p, file->python_problem);
		if (!file || !file->python ||
		    elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &p->python_bias))
			continue;
		p->python_file = file;
	}
	for (size_t i = 0; !p->asyncio_table && i < scan->maps.n; i++)
		find_asyncio(ps, p, &scan->maps.maps[i]);
	retry(ps, p);
}

void pythons__look(struct pythons *ps)
{
	process_table__each(ps->processes, SO_MAX_SLOTS, retry, ps);
}

static void retry_new(void *context, struct process *p)
{
	if (is_new(p))
		retry(context, p);
}

uint64_t pythons__tick(struct pythons *ps, uint64_t now_ns)
{
	if (ps->again_ns && now_ns >= ps->again_ns) {
		ps->again_ns = 0;
		process_table__each(ps->processes, SO_MAX_SLOTS, retry_new, ps);
	}
	return ps->again_ns ?: UINT64_MAX;
}

static const struct python_function *failure(int why)
{
	static const struct python_function stale = { "[python:stale]", "", 0 },
					    unreadable = { "[python:unreadable]", "", 0 },
					    unnamed = { "[python:names-full]", "", 0 };

	return why == -ESTALE ? &stale : why == -ENOSPC ? &unnamed : &unreadable;
}

static const struct python_code *read_code(struct pythons *ps, struct process *p, const uint64_t *words, int *why)
{
	struct target *t = target_of(ps, p);
	struct foreign_memory memory = { read_process, p };

	if (!t->python.names && python_names__new(0, &t->python.names)) {
		*why = -ENOMEM;
		return NULL;
	}
	return python_names__get(t->python.names, &memory, &p->python->layout, SO_PYTHON_FRAME_CODE(words[0]), words[1],
				 why);
}

/* Puts what a frame is in the place of the kernel's words. False when it could not be read. */
static bool read_frame(struct pythons *ps, struct process *p, uint64_t *words)
{
	struct python_frame frame = { .entry = SO_PYTHON_FRAME_ENTRY(words[0]) };
	const struct python_code *code = NULL;
	int why = -EFAULT;

	if (p && p->python && target_of(ps, p))
		code = read_code(ps, p, words, &why);
	if (code) {
		frame.function = python_functions__get(ps->functions, code->name, code->filename, code->first_line);
		frame.line = python_code__line(code, p->python->layout.version, SO_PYTHON_FRAME_INSTRUCTION(words[0]));
		steps__seen_code(target_of(ps, p), p->tgid, p->python->layout.version, code);
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

bool pythons__read(struct pythons *ps, pid_t tgid, uint64_t *words, size_t n)
{
	struct process *p = process_table__find(ps->processes, tgid);
	bool all = true;

	for (size_t i = 0; i < n; i++)
		all &= read_frame(ps, p, &words[i * SO_PYTHON_WORDS]);
	return all;
}

void pythons__check(struct pythons *ps, struct stack *stack)
{
	struct process *p;

	if (!python_calls__are_missing(ps->files, stack))
		return;
	stack->record.python = SO_PYTHON_STATE_MISSING;
	p = process_table__find(ps->processes, (pid_t)stack->record.tgid);
	if (!p || !p->python || p->python->place.several)
		return;
	p->python->place.several = 1;
	process_table__set_python(ps->processes, p, p->kernel.python.build);
}

void pythons__turn(struct pythons *ps)
{
	python_functions__turn(&ps->functions);
	limits__set(LIMIT_PYTHON_NAMES, python_functions__all_bytes());
}

void pythons__forget(struct pythons *ps)
{
	ps->n_builds = 0;
}
