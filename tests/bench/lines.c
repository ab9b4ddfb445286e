// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many cache lines and pages the walk of one sample touches, by kind of data: a process's first thread is stopped
 * at the given rate and walked here, by the source that the kernel's programs are made of, over tables as the daemon
 * makes them. What only the kernel has (maps of counts and processes, ring, code, buffers) is not in it. Prints a JSON
 * object. Usage: lines PID [STACKS [HZ]]
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/processes/process_table.h"
#include "stakeout/array.h"
#include "tests/golden/tracee.h"
#include "tests/unit/fake_sampler.h"

#define LINE_SHIFT 6
#define PAGE_SHIFT 12

#define KINDS(X)                        \
	X(MAPPING, "mapping")           \
	X(INDEX, "block index")         \
	X(ROW, "rows")                  \
	X(RULE, "rule")                 \
	X(CACHE_INDEX, "cache's index") \
	X(CACHED_FRAME, "cached frame") \
	X(STACK, "stack")               \
	X(THREAD, "Python thread")      \
	X(FRAME, "Python frame")        \
	X(CODE, "code object")          \
	X(NAME, "code's name")

enum kind {
#define X(id, name) KIND_##id,
	KINDS(X)
#undef X
		KIND_COUNT,
};

static const char *const kind_names[] = {
#define X(id, name) name,
	KINDS(X)
#undef X
};

/* Of one sample, each once. */
struct touched {
	uint64_t *at;
	size_t n, capacity;
	uint64_t sum; /* over all samples */
};

static struct {
	struct sampler *sampler;
	pid_t pid;
	enum kind python; /* what the Python walker reads beside frames and code objects */
	struct so_frame_cache *cache;
	struct touched lines[KIND_COUNT], pages[KIND_COUNT];
} here;

static void touch_one(struct touched *t, uint64_t what)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->at[i] == what)
			return;
	}
	if (ARRAY_RESERVE(t->at, t->capacity, t->n + 1))
		abort();
	t->at[t->n++] = what;
}

static void touch(enum kind kind, uint64_t at, uint64_t bytes)
{
	for (uint64_t line = at >> LINE_SHIFT; line <= (at + bytes - 1) >> LINE_SHIFT; line++) {
		touch_one(&here.lines[kind], line);
		touch_one(&here.pages[kind], line >> (PAGE_SHIFT - LINE_SHIFT));
	}
}

static bool uw_read_user(void *dst, __u32 bytes, __u64 address)
{
	touch(KIND_STACK, address, bytes);
	return tracee__read(here.pid, dst, bytes, address);
}

static const struct so_mapping *uw_mapping(__u32 i)
{
	const struct so_mapping *m = &sampler__mappings(here.sampler)[i & (SO_MAX_MAPPINGS - 1)];

	touch(KIND_MAPPING, (uintptr_t)m, sizeof(*m));
	return m;
}

static const __u32 *uw_shard(__u32 shard)
{
	return fake_sampler__shard(here.sampler, shard);
}

static const struct so_unwind_rule *uw_rule(__u32 rule)
{
	const struct so_unwind_rule *r = &sampler__rules(here.sampler)[rule & (SO_MAX_RULES - 1)];

	touch(KIND_RULE, (uintptr_t)r, sizeof(*r));
	return r;
}

static struct so_frame_cache *uw_cache(__u32 cpu)
{
	return here.cache;
}

#define UW_SEARCH                 static
#define UW_TOUCH(kind, at, bytes) touch(KIND_##kind, (uintptr_t)(at), bytes)
#include "stakeout/unwinder.h"

static struct so_unwind unwind;
static bool py_read(void *dst, __u32 bytes, __u64 address);

#include "stakeout/python_walker.h"

static struct so_python_walk walk;

/* What it is, by where it goes. */
static bool py_read(void *dst, __u32 bytes, __u64 address)
{
	enum kind kind = here.python;

	if (dst == walk.chunk || dst == walk.window)
		kind = KIND_FRAME;
	else if (dst == walk.code)
		kind = KIND_CODE;
	touch(kind, address, bytes);
	return tracee__read(here.pid, dst, bytes, address);
}

/* The process's mappings and its files' tables, as the daemon learns them. */
static int learn(struct process_table *table, struct file_registry *files, struct process_scan *scan,
		 struct process **p)
{
	const struct so_process kernel = { .flags = SO_PROCESS_ACTIVE };
	int ret = process_table__add(table, here.pid, &kernel, p);

	ret = ret ?: process_scan__read(scan, here.pid);
	ret = ret ?: process_table__begin_scan(table, scan);
	if (ret)
		return ret;
	process_scan__prepare(scan, files);
	return process_table__end_scan(table, scan);
}

static bool read_target(void *context, uint64_t address, void *to, size_t bytes)
{
	return tracee__read(here.pid, to, bytes, address);
}

/* Its interpreter; false: none that is supported. */
static bool find_python(struct file_registry *files, const struct process_scan *scan, struct python_process *out)
{
	struct foreign_memory memory = { read_target, NULL };
	struct so_error why = { "" };
	uint64_t bias;

	for (size_t i = 0; i < scan->maps.n; i++) {
		const struct proc_map *map = &scan->maps.maps[i];
		bool known;
		const struct file_entry *file = file_registry__find(files, map, &known);

		if (file && file->python &&
		    !elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &bias))
			return !python_process__open_running(&memory, file->python, bias, out, &why);
	}
	return false;
}

static void walk_native(const struct so_process *process, const uint64_t *regs)
{
	uw_clear(&unwind);
	memcpy(unwind.regs, regs, sizeof(unwind.regs));
	uw_start(&unwind, regs[TRACEE_PC], process->mappings, process->run);
	while (!uw_step(&unwind))
		;
}

static void walk_python(const struct python_process *python, uint64_t fsbase)
{
	here.python = KIND_THREAD;
	if (py_begin(&walk, &python->walker, &python->place, fsbase))
		return;
	here.python = KIND_NAME;
	while (!py_step(&walk, &python->walker))
		;
}

/* Stops the thread, which ptrace has seized. 0, or -errno: it has ended. */
static int stop(uint64_t *regs, uint64_t *fsbase)
{
	struct user_regs_struct user;
	int status, ret;

	if (ptrace(PTRACE_INTERRUPT, here.pid, 0, 0) || waitpid(here.pid, &status, __WALL) < 0)
		return -errno;
	if (!WIFSTOPPED(status))
		return -ESRCH;
	ret = tracee__regs(here.pid, regs);
	if (ret || ptrace(PTRACE_GETREGS, here.pid, 0, &user))
		return ret ?: -errno;
	*fsbase = user.fs_base;
	return 0;
}

static void add_up(void)
{
	for (unsigned i = 0; i < KIND_COUNT; i++) {
		here.lines[i].sum += here.lines[i].n;
		here.pages[i].sum += here.pages[i].n;
		here.lines[i].n = here.pages[i].n = 0;
	}
}

static json_t *report(unsigned n, uint64_t frames, uint64_t python_frames)
{
	json_t *kinds = json_object();
	uint64_t lines = 0, pages = 0;

	for (unsigned i = 0; i < KIND_COUNT; i++) {
		lines += here.lines[i].sum;
		pages += here.pages[i].sum;
		json_object_set_new(kinds, kind_names[i],
				    json_pack("{s:f, s:f}", "lines", (double)here.lines[i].sum / n, "pages",
					      (double)here.pages[i].sum / n));
	}
	return json_pack("{s:i, s:f, s:f, s:f, s:f, s:o}", "samples", (int)n, "frames", (double)frames / n,
			 "python_frames", (double)python_frames / n, "lines", (double)lines / n, "pages",
			 (double)pages / n, "kinds", kinds);
}

static int measure(const struct so_process *process, const struct python_process *python, unsigned n, unsigned hz)
{
	const struct timespec period = { .tv_nsec = 1000000000 / (long)hz };
	uint64_t regs[TRACEE_REGS], fsbase = 0, frames = 0, python_frames = 0;
	_cleanup_free_ char *text = NULL;
	json_t *out;
	int ret = ptrace(PTRACE_SEIZE, here.pid, 0, 0) ? -errno : 0;

	for (unsigned i = 0; !ret && i < n; i++) {
		nanosleep(&period, NULL);
		ret = stop(regs, &fsbase);
		if (ret)
			break;
		walk.n = 0;
		walk_native(process, regs);
		if (python)
			walk_python(python, fsbase);
		frames += unwind.n;
		python_frames += walk.n;
		add_up();
		ret = ptrace(PTRACE_CONT, here.pid, 0, 0) ? -errno : 0;
	}
	if (ret)
		return ret;
	out = report(n, frames, python_frames);
	text = json_dumps(out, JSON_INDENT(1));
	json_decref(out);
	return text && puts(text) >= 0 ? 0 : -ENOMEM;
}

static int run(unsigned n, unsigned hz)
{
	_cleanup_(sampler) struct sampler *sampler = here.sampler = fake_sampler__new();
	_cleanup_(table_pool) struct table_pool *pool = NULL;
	_cleanup_(file_registry) struct file_registry *files = NULL;
	_cleanup_(process_table) struct process_table *table = NULL;
	_cleanup_(process_scan) struct process_scan scan = { 0 };
	struct python_process python;
	struct so_process now;
	struct process *p;
	int ret = sampler ? table_pool__new(sampler, &pool) : -ENOMEM;

	ret = ret ?: file_registry__new(pool, NULL, "", &files, NULL);
	ret = ret ?: process_table__new(sampler, files, pool, &table);
	ret = ret ?: learn(table, files, &scan, &p);
	ret = ret ?: sampler__get_process(sampler, here.pid, &now);
	return ret ?: measure(&now, find_python(files, &scan, &python) ? &python : NULL, n, hz);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 300, hz = argc > 3 ? (unsigned)atoi(argv[3]) : 99;
	int ret = -EINVAL;

	here.pid = argc > 1 ? atoi(argv[1]) : 0;
	here.cache = aligned_alloc(1 << PAGE_SHIFT, sizeof(*here.cache));
	if (here.cache && here.pid > 0 && n && hz) {
		memset(here.cache, 0, sizeof(*here.cache));
		ret = run(n, hz);
	}
	free(here.cache);
	for (unsigned i = 0; i < KIND_COUNT; i++) {
		free(here.lines[i].at);
		free(here.pages[i].at);
	}
	if (ret)
		fprintf(stderr, "lines: %s\n", strerror(-ret));
	return ret ? 1 : 0;
}
