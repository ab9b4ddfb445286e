// SPDX-License-Identifier: GPL-2.0-or-later
/* The profile builder is this file's: it keeps what it is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "daemon/profile/profile_export.h"
#include "daemon/profile/python_calls.h"
#include "tests/unit/fake_sampler.h"
#include "tests/unit/here.h"

#define KERNEL 0xffffffff81000000ull

struct location {
	uint64_t mapping_id, address;
	char name[128], system_name[128], filename[128];
	int64_t line;
	/* Where functions were inlined there. The rest is the outermost one's. */
	size_t n_frames;
	char innermost[128];
	int64_t innermost_line;
};

struct sample {
	uint64_t locations[8];
	size_t n;
	uint64_t count;
	pid_t pid, tid;
	char comm[32], gil[16];
	uint32_t process;
};

/* Numbers count from 1: element 0 is not used. */
struct profile_builder {
	char mappings[8][128], build_ids[8][80];
	struct location locations[64];
	struct sample samples[16];
	uint64_t n_mappings, n_locations, n_samples, n_processes;
	bool out_of_memory;
};

uint64_t profile_builder__mapping(struct profile_builder *b, const struct profile_mapping *mapping)
{
	strncpy(b->mappings[++b->n_mappings], mapping->filename, 127);
	strncpy(b->build_ids[b->n_mappings], mapping->build_id, 79);
	return b->n_mappings;
}

uint64_t profile_builder__location(struct profile_builder *b, const struct profile_frame *frame)
{
	struct location *l = &b->locations[b->n_locations + 1];

	if (b->out_of_memory)
		return 0;
	l->mapping_id = frame->mapping_id;
	l->address = frame->address;
	strncpy(l->name, frame->name ?: "", 127);
	strncpy(l->system_name, frame->system_name ?: frame->name ?: "", 127);
	strncpy(l->filename, frame->filename ?: "", 127);
	l->line = frame->line;
	return ++b->n_locations;
}

uint64_t profile_builder__location_of(struct profile_builder *b, const struct profile_frame *frames, size_t n)
{
	uint64_t location = profile_builder__location(b, &frames[n - 1]);

	b->locations[location].n_frames = n;
	strncpy(b->locations[location].innermost, frames[0].name, 127);
	b->locations[location].innermost_line = frames[0].line;
	return location;
}

int profile_builder__comment(struct profile_builder *b, const char *key, const char *value)
{
	fail();
	return 0;
}

uint32_t profile_builder__process(struct profile_builder *b, const struct process_labels *labels)
{
	b->n_processes++;
	return (uint32_t)atoi(labels->rank) + 1;
}

int profile_builder__sample_labelled(struct profile_builder *b, const uint64_t *locations, size_t n, uint64_t count,
				     const struct profile_labels *labels)
{
	struct sample *s = &b->samples[++b->n_samples];

	assert_true(n <= 8);
	memcpy(s->locations, locations, n * sizeof(*locations));
	s->n = n;
	s->count = count;
	s->pid = labels->pid;
	s->tid = labels->tid;
	s->process = labels->process;
	strncpy(s->comm, labels->comm, 31);
	strncpy(s->gil, labels->gil ?: "", 15);
	return 0;
}

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
	struct file_registry *files;
	struct kernel_symbols *kernel;
	char kernel_path[32];
	struct accumulator acc;
	struct profile_builder builder;
	struct profile_source source;
	uint32_t libc;  /* number of this process's C library */
	uint64_t vaddr; /* of l64a() in it */
};

/* The file that an address of this process lies in; returns its number. */
static uint32_t add_file(struct world *w, uintptr_t address)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	const struct proc_map *map;
	struct prepared_file *p;
	bool known;

	assert_int_equal(proc_maps__read(getpid(), true, &maps, NULL), 0);
	map = proc_maps__find(&maps, address);
	assert_non_null(map);
	assert_int_equal(file_registry__prepare(w->files, getpid(), map, &p), 0);
	assert_int_equal(file_registry__add(w->files, p), 0);
	return file_registry__find(w->files, map, &known)->number;
}

static const char *reader_path(void)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/stakeoutd", getenv("STAKEOUT_BUILD") ?: "build");
	return path;
}

static void add_libc(struct world *w)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	const struct proc_map *map;
	const struct file_entry *file;
	struct prepared_file *p;
	uint64_t bias;
	bool known;

	assert_int_equal(proc_maps__read(getpid(), true, &maps, NULL), 0);
	map = proc_maps__find(&maps, (uintptr_t)l64a);
	assert_non_null(map);
	assert_int_equal(file_registry__prepare(w->files, getpid(), map, &p), 0);
	assert_int_equal(file_registry__add(w->files, p), 0);
	file = file_registry__find(w->files, map, &known);
	assert_int_equal(elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &bias), 0);
	w->libc = file->number;
	w->vaddr = (uintptr_t)l64a - bias;
}

static void write_kernel_symbols(struct world *w)
{
	_cleanup_close_ int fd = -1;

	snprintf(w->kernel_path, sizeof(w->kernel_path), "/tmp/stakeout-kallsyms-XXXXXX");
	fd = mkstemp(w->kernel_path);
	assert_true(fd >= 0);
	dprintf(fd, "%llx T first\n%llx t second\n%llx T last\n", KERNEL, KERNEL + 0x100, KERNEL + 0x200);
	assert_int_equal(kernel_symbols__new(w->kernel_path, "/nonexistent/modules", &w->kernel), 0);
}

static int set_up(void **state)
{
	static struct world w;

	w = (struct world){ .sampler = fake_sampler__new() };
	assert_non_null(w.sampler);
	assert_int_equal(table_pool__new(w.sampler, &w.pool), 0);
	assert_int_equal(file_registry__new(w.pool, NULL, "", &w.files, NULL), 0);
	write_kernel_symbols(&w);
	add_libc(&w);
	w.source = (struct profile_source){ .acc = &w.acc, .files = w.files, .kernel = w.kernel };
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	accumulator__release(&w->acc);
	kernel_symbols__free(w->kernel);
	unlink(w->kernel_path);
	file_registry__free(w->files);
	table_pool__free(w->pool);
	sampler__free(w->sampler);
	return 0;
}

static void add_sample(struct world *w, uint64_t hash, uint16_t cause, const uint64_t *frames, uint16_t n_user,
		       uint16_t n_kernel, const char *comm, uint64_t count)
{
	const struct so_stack_record record = {
		.hash = hash, .n_user = n_user, .n_kernel = n_kernel, .tgid = (uint32_t)getpid(), .cause = cause
	};
	struct stack *stack = stack__new(&record, frames, NULL);
	char name[16] = "";

	assert_non_null(stack);
	memcpy(name, comm, strnlen(comm, 16));
	assert_int_equal(accumulator__add_stack(&w->acc, stack), 0);
	assert_int_equal(accumulator__add(&w->acc, &(struct stack_sample){ SAMPLE_CPU, (uint32_t)getpid(), 77, name,
									   hash, count, 0 }),
			 0);
	stack__unref(stack);
}

static const struct location *location_of(const struct world *w, unsigned sample, unsigned at)
{
	const struct sample *s = &w->builder.samples[sample];

	assert_true(at < s->n);
	return &w->builder.locations[s->locations[at]];
}

static void test_order(void **state)
{
	struct world *w = *state;
	const uint64_t frames[] = { SO_FRAME(w->libc, w->vaddr), SO_FRAME(w->libc, w->vaddr + 5), KERNEL + 0x200,
				    KERNEL + 0x100 };

	add_sample(w, 1, SO_TRUNC_NONE, frames, 2, 2, "sixteen-letters!", 5);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.n_samples, 1);
	assert_int_equal(w->builder.samples[1].n, 4);
	assert_int_equal(w->builder.samples[1].count, 5);
	assert_int_equal(w->builder.samples[1].pid, getpid());
	assert_int_equal(w->builder.samples[1].tid, 77);
	assert_string_equal(w->builder.samples[1].comm, "sixteen-letters!");
	/*
	 * The interrupted instruction is `last`; a return address that is the first of `second` is a call in `first`.
	 */
	assert_string_equal(location_of(w, 1, 0)->name, "last");
	assert_string_equal(location_of(w, 1, 1)->name, "first");
	assert_string_equal(w->builder.mappings[location_of(w, 1, 1)->mapping_id], "[kernel.kallsyms]");
	assert_string_equal(location_of(w, 1, 2)->name, "l64a");
	assert_int_equal(location_of(w, 1, 2)->address, w->vaddr);
	assert_string_equal(location_of(w, 1, 3)->name, "l64a");
	assert_int_equal(location_of(w, 1, 3)->address, w->vaddr + 5);
	assert_non_null(strstr(w->builder.mappings[location_of(w, 1, 2)->mapping_id], "/libc.so"));
	assert_int_equal(strlen(w->builder.build_ids[location_of(w, 1, 2)->mapping_id]), 40);
}

/* Source lines, and functions inlined there, of this program. */
static void test_source_lines(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = source_lines__new(reader_path(), 60000000000ull);
	struct world *w = *state;
	uint32_t number = add_file(w, (uintptr_t)here__outer);
	const uint64_t frames[] = { SO_FRAME(number, here__vaddr(here__outer())), SO_FRAME(w->libc, w->vaddr) };
	const struct location *here;

	file_registry__set_source_lines(w->files, lines);
	add_sample(w, 1, SO_TRUNC_NONE, frames, 2, 0, "x", 1);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	here = location_of(w, 1, 0);
	assert_int_equal(here->n_frames, 3);
	assert_string_equal(here->innermost, "here__innermost");
	assert_int_equal(here->innermost_line, HERE_INNERMOST_LINE);
	assert_string_equal(here->name, "here__outer");
	assert_int_equal(here->line, HERE_OUTER_LINE);
	assert_non_null(strstr(here->filename, "tests/unit/here.h"));
	/* No debug root, and nothing in libc itself. */
	assert_string_equal(location_of(w, 1, 1)->name, "l64a");
	assert_int_equal(location_of(w, 1, 1)->line, 0);
	file_registry__set_source_lines(w->files, NULL);
}

static void test_labels_of_processes(void **state)
{
	struct world *w = *state;
	const uint64_t frames[] = { SO_FRAME(w->libc, w->vaddr), KERNEL + 0x100, KERNEL + 0x200 };
	struct process_label_table labels = { 0 };
	struct process_labels rank = { .rank = "3" };

	add_sample(w, 1, SO_TRUNC_NONE, frames, 1, 0, "x", 5);
	add_sample(w, 2, SO_TRUNC_NONE, frames, 1, 1, "x", 5);
	w->source.labels = &labels;
	process_label_table__set(&labels, 1, &rank); /* another process's */
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.n_processes, 0);
	assert_int_equal(w->builder.samples[1].process, 0);
	process_label_table__set(&labels, getpid(), &rank);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.n_processes, 1); /* once for all its samples */
	assert_int_equal(w->builder.samples[3].process, 4);
	assert_int_equal(w->builder.samples[4].process, 4);
	process_label_table__release(&labels);
}

/* Python frames take the place of the interpreter's loop, here a made-up one around l64a(). */
static void add_python_sample(struct world *w, uint16_t n_python, uint16_t state, uint16_t flags)
{
	static const struct python_function inner = { "inner", "/app/train.py", 10 };
	static const struct python_function outer = { "outer", "/app/train.py", 20 };
	const struct python_frame python[] = { { &inner, 11, 0 }, { &outer, 22, 1 } };
	uint64_t frames[3 + sizeof(python) / 8] = { SO_FRAME(0, 0x7f0000001010), SO_FRAME(w->libc, w->vaddr + 5),
						    SO_FRAME(w->libc, w->vaddr + 0x1000) };
	struct so_stack_record record = { .hash = 1,
					  .n_user = 3,
					  .n_python = n_python,
					  .python = state,
					  .flags = flags,
					  .tgid = (uint32_t)getpid() };
	struct file_entry *file = (struct file_entry *)file_registry__get(w->files, w->libc);
	struct stack *stack;

	if (!file->python) {
		file->python = calloc(1, sizeof(*file->python));
		assert_non_null(file->python);
		file->python->loops[0].low = w->vaddr;
		file->python->loops[0].high = w->vaddr + 16;
		file->python->n_loops = 1;
	}
	memcpy(&frames[3], python, sizeof(python));
	stack = stack__new(&record, frames, NULL);
	assert_non_null(stack);
	assert_int_equal(accumulator__add_stack(&w->acc, stack), 0);
	assert_int_equal(accumulator__add(&w->acc, &(struct stack_sample){ SAMPLE_CPU, (uint32_t)getpid(), 77,
									   "python\0\0\0\0\0\0\0\0\0", 1, 3, 0 }),
			 0);
	stack__unref(stack);
}

static void test_python(void **state)
{
	struct world *w = *state;

	add_python_sample(w, 2, SO_PYTHON_STATE_COMPLETE, SO_STACK_GIL);
	assert_int_equal(w->acc.python_named, 3);
	assert_int_equal(w->acc.gil, 3);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.samples[1].n, 4);
	assert_string_equal(w->builder.samples[1].gil, "held");
	assert_string_equal(location_of(w, 1, 0)->name, "[jit]");
	assert_string_equal(location_of(w, 1, 1)->name, "inner");
	/* With one, go tool pprof would show "<module>" as "<unknown>". */
	assert_string_equal(location_of(w, 1, 1)->system_name, "");
	assert_string_equal(location_of(w, 1, 1)->filename, "/app/train.py");
	assert_int_equal(location_of(w, 1, 1)->line, 11);
	assert_int_equal(location_of(w, 1, 1)->mapping_id, 0);
	assert_string_equal(location_of(w, 1, 2)->name, "outer");
	assert_int_equal(location_of(w, 1, 2)->line, 22);
	assert_int_equal(location_of(w, 1, 3)->address, w->vaddr + 0x1000);
}

/*
 * A call of the loop that has no frames is not complete, unless it may begin or end, or no interpreter was known yet.
 */
static void test_python_missing(void **state)
{
	static const struct {
		uint16_t flags, call_at, empty_calls;
		bool missing;
	} cases[] = {
		{ SO_STACK_PYTHON_KNOWN, 0, 0, true },
		{ SO_STACK_PYTHON_KNOWN, 0, 1, false },
		{ SO_STACK_PYTHON_KNOWN | SO_STACK_GIL, 0, 0, false },
		{ SO_STACK_PYTHON_KNOWN | SO_STACK_NO_GIL, 0, 0, false },
		{ SO_STACK_PYTHON_KNOWN | SO_STACK_GIL | SO_STACK_SUBINTERPRETER, 0, 0, true },
		/* It is the innermost one that has frames. */
		{ SO_STACK_PYTHON_KNOWN | SO_STACK_GIL, 2, 0, true },
		{ 0, 0, 0, false },
	};
	struct world *w = *state;
	struct stack *stack;

	add_python_sample(w, 0, SO_PYTHON_STATE_COMPLETE, 0);
	stack = w->acc.stacks[0];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stack->record.flags = cases[i].flags;
		stack->record.call_at = cases[i].call_at;
		stack->record.empty_calls = cases[i].empty_calls;
		assert_int_equal(python_calls__are_missing(w->files, stack), cases[i].missing);
	}
	/* A thread of another interpreter than the known one, and a stack that was cut. */
	stack->record.flags = SO_STACK_PYTHON_KNOWN;
	stack->record.python = SO_PYTHON_STATE_NONE;
	assert_true(python_calls__are_missing(w->files, stack));
	stack->record.cause = SO_TRUNC_DEPTH;
	assert_false(python_calls__are_missing(w->files, stack));
}

/* Where the frames end too early, one more says why. */
static void test_python_cut(void **state)
{
	struct world *w = *state;

	add_python_sample(w, 1, SO_PYTHON_STATE_FRAME, 0);
	assert_int_equal(w->acc.python_named, 0);
	assert_int_equal(w->acc.python[SO_PYTHON_STATE_FRAME], 3);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.samples[1].n, 4);
	assert_string_equal(w->builder.samples[1].gil, "released");
	assert_string_equal(location_of(w, 1, 1)->name, "inner");
	assert_string_equal(location_of(w, 1, 2)->name, "[python:frame-unreadable]");
}

/* The same address as a leaf and as a return address is two places. */
static void test_kernel_leaf(void **state)
{
	struct world *w = *state;
	const uint64_t leaf[] = { KERNEL + 0x100 }, caller[] = { KERNEL + 0x150, KERNEL + 0x100 };

	add_sample(w, 1, SO_TRUNC_NONE, leaf, 0, 1, "a", 1);
	add_sample(w, 2, SO_TRUNC_NONE, caller, 0, 2, "a", 1);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_string_equal(location_of(w, 1, 0)->name, "second");
	assert_string_equal(location_of(w, 2, 0)->name, "second");
	assert_string_equal(location_of(w, 2, 1)->name, "first");
}

static void test_without_kernel_symbols(void **state)
{
	struct world *w = *state;
	const uint64_t frames[] = { KERNEL };

	w->source.kernel = NULL;
	add_sample(w, 1, SO_TRUNC_NONE, frames, 0, 1, "a", 1);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_string_equal(location_of(w, 1, 0)->name, "");
	assert_int_equal(location_of(w, 1, 0)->address, 0); /* not to be learned here */
}

/* A cut stack ends in a frame that says why; a cause from elsewhere is not an index beyond the names. */
static void test_truncated(void **state)
{
	static const char *const words[] = {
#define X(name, word, why) [SO_TRUNC_##name] = word,
		SO_TRUNCATIONS(X)
#undef X
	};
	struct world *w = *state;
	const uint64_t frame = SO_FRAME(w->libc, w->vaddr);
	char want[64];

	for (uint16_t cause = SO_TRUNC_NONE; cause <= SO_TRUNC_COUNT; cause++) {
		struct profile_builder *b = &w->builder;
		const struct location *last;

		add_sample(w, 1, cause, &frame, 1, 0, "a", 1);
		*b = (struct profile_builder){ 0 };
		assert_int_equal(profile_export__samples(&w->source, b), 0);
		assert_int_equal(b->samples[1].n, cause == SO_TRUNC_NONE ? 1 : 2);
		last = &b->locations[b->samples[1].locations[1]];
		if (cause != SO_TRUNC_NONE) {
			snprintf(want, sizeof(want), "[truncated:%s]",
				 words[cause == SO_TRUNC_COUNT ? SO_TRUNC_TABLE_LOOKUP : cause]);
			assert_string_equal(last->name, want);
			assert_int_equal(last->mapping_id, 0);
		}
		accumulator__release(&w->acc);
	}
}

/* A frame is one location and one look-up however many stacks it is in. */
static void test_shared_frames(void **state)
{
	struct world *w = *state;
	const uint64_t a[] = { SO_FRAME(w->libc, w->vaddr), SO_FRAME(w->libc, w->vaddr + 5) },
		       b[] = { SO_FRAME(w->libc, w->vaddr + 5), SO_FRAME(w->libc, w->vaddr) };

	add_sample(w, 1, SO_TRUNC_DEPTH, a, 2, 0, "a", 1);
	add_sample(w, 2, SO_TRUNC_DEPTH, b, 2, 0, "b", 2);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.n_samples, 2);
	assert_int_equal(w->builder.n_locations, 3);
	assert_int_equal(w->builder.samples[1].locations[0], w->builder.samples[2].locations[1]);
	assert_int_equal(w->builder.samples[1].locations[2], w->builder.samples[2].locations[2]);
}

static void write_perf_map(char *path, size_t size, pid_t pid)
{
	FILE *f;

	snprintf(path, size, "/tmp/perf-%d.map", pid);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "7f0000001000 100 _ZN3jit4loopEv\n");
	fclose(f);
}

/* Code in no file: by the process's perf map, its names demangled; and an address that the map does not have. */
static void test_jit(void **state)
{
	struct world *w = *state;
	const uint64_t frames[] = { SO_FRAME(0, 0x7f0000001010), SO_FRAME(0, 0x7f0000002000) };
	char path[64];

	write_perf_map(path, sizeof(path), getpid());
	add_sample(w, 1, SO_TRUNC_NONE, frames, 2, 0, "a", 1);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	unlink(path);
	assert_string_equal(location_of(w, 1, 0)->name, "jit::loop");
	assert_string_equal(location_of(w, 1, 0)->system_name, "_ZN3jit4loopEv");
	assert_int_equal(location_of(w, 1, 0)->mapping_id, 0);
	assert_string_equal(location_of(w, 1, 1)->name, "[jit]");
	assert_int_equal(location_of(w, 1, 1)->address, 0x7f0000002000);
}

/* An address in no mapping is no code of a just-in-time compiler. */
static void test_no_mapping(void **state)
{
	struct world *w = *state;
	const uint64_t frame = SO_FRAME(0, 0x1234);

	add_sample(w, 1, SO_TRUNC_NO_MAPPING, &frame, 1, 0, "a", 1);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_string_equal(location_of(w, 1, 0)->name, "");
	assert_int_equal(location_of(w, 1, 0)->address, 0x1234);
	assert_string_equal(location_of(w, 1, 1)->name, "[truncated:no-mapping]");
}

/* The map that an ended process has left, where its number meant the same as here; not otherwise. */
static void test_jit_of_ended_process(void **state)
{
	struct world *w = *state;
	const uint64_t frame = SO_FRAME(0, 0x7f0000001010);
	struct so_stack_record record = { .hash = 1, .n_user = 1 };
	struct stack *stack;
	char path[64];
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	write_perf_map(path, sizeof(path), pid);
	record.tgid = (uint32_t)pid;
	stack = stack__new(&record, &frame, NULL);
	assert_int_equal(accumulator__add_stack(&w->acc, stack), 0);
	assert_int_equal(accumulator__add(&w->acc, &(struct stack_sample){ SAMPLE_CPU, (uint32_t)pid, 77,
									   "a\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 1, 1, 0 }),
			 0);
	stack__unref(stack);
	w->source.uid = getuid();
	for (unsigned own = 0; own < 2; own++) {
		w->builder = (struct profile_builder){ 0 };
		w->source.own_namespaces = own;
		assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
		assert_string_equal(location_of(w, 1, 0)->name, own ? "jit::loop" : "[jit]");
	}
	unlink(path);
}

/* A file number that the registry does not have: an address without name. */
static void test_unknown_file(void **state)
{
	struct world *w = *state;
	const uint64_t frame = SO_FRAME(60000, 0x1234);

	add_sample(w, 1, SO_TRUNC_NONE, &frame, 1, 0, "a", 1);
	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_string_equal(location_of(w, 1, 0)->name, "");
	assert_int_equal(location_of(w, 1, 0)->address, 0x1234);
	assert_int_equal(location_of(w, 1, 0)->mapping_id, 0);
}

static void test_out_of_memory(void **state)
{
	struct world *w = *state;
	const uint64_t frame = SO_FRAME(w->libc, w->vaddr);

	add_sample(w, 1, SO_TRUNC_NONE, &frame, 1, 0, "a", 1);
	w->builder.out_of_memory = true;
	assert_int_equal(profile_export__samples(&w->source, &w->builder), -ENOMEM);
	assert_int_equal(w->builder.n_samples, 0);
}

static void test_nothing(void **state)
{
	struct world *w = *state;

	assert_int_equal(profile_export__samples(&w->source, &w->builder), 0);
	assert_int_equal(w->builder.n_samples, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(order),
		TEST(source_lines),
		TEST(labels_of_processes),
		TEST(python),
		TEST(python_missing),
		TEST(python_cut),
		TEST(kernel_leaf),
		TEST(without_kernel_symbols),
		TEST(truncated),
		TEST(shared_frames),
		TEST(jit),
		TEST(no_mapping),
		TEST(jit_of_ended_process),
		TEST(unknown_file),
		TEST(out_of_memory),
		TEST(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
