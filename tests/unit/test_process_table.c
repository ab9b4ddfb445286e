// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/os/clock.h"
#include "daemon/processes/process_table.h"
#include "tests/unit/fake_sampler.h"
#include "tests/unit/memory_lock_try.h"

#define PAGE 4096

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
	struct file_registry *files;
	struct process_table *table;
	pid_t child; /* ended by tear_down */
};

static int set_up(void **state)
{
	static struct world w;

	w = (struct world){ .sampler = fake_sampler__new() };
	assert_non_null(w.sampler);
	assert_int_equal(table_pool__new(w.sampler, &w.pool), 0);
	assert_int_equal(file_registry__new(w.pool, NULL, "", &w.files, NULL), 0);
	assert_int_equal(process_table__new(w.sampler, w.files, w.pool, &w.table), 0);
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	process_table__free(w->table);
	file_registry__free(w->files);
	table_pool__free(w->pool);
	assert_int_equal(fake_sampler__processes(w->sampler), 0);
	sampler__free(w->sampler);
	if (w->child) {
		kill(w->child, SIGKILL);
		waitpid(w->child, NULL, 0);
	}
	return 0;
}

static struct process *add(struct world *w, pid_t tgid, uint32_t slot)
{
	const struct so_process kernel = { .rate_hz = 99, .flags = SO_PROCESS_FOLLOW, .slot = slot };
	struct process *p = NULL;

	assert_int_equal(process_table__add(w->table, tgid, &kernel, &p), 0);
	assert_int_equal(p->tgid, tgid);
	return p;
}

static struct so_process in_kernel(struct world *w, pid_t tgid)
{
	struct so_process kernel = { 0 };

	assert_int_equal(sampler__get_process(w->sampler, tgid, &kernel), 0);
	return kernel;
}

static void expect_not_in_kernel(struct world *w, pid_t tgid)
{
	struct so_process kernel;

	assert_int_equal(sampler__get_process(w->sampler, tgid, &kernel), -ENOENT);
}

/* The pieces that the kernel side would search for a process. */
static const struct so_mapping *pieces(struct world *w, pid_t tgid, uint32_t *n)
{
	uint64_t mappings = in_kernel(w, tgid).mappings;

	*n = (uint32_t)mappings;
	return sampler__mappings(w->sampler) + (mappings >> 32);
}

/* Scans without /proc: `n` anonymous executable mappings of one page each, the first at `start`. */
static int scan_made_up(struct world *w, pid_t tgid, uint64_t start, size_t n, uint64_t generation)
{
	_cleanup_(process_scan) struct process_scan scan = { .tgid = tgid, .generation = generation };

	scan.maps.maps = calloc(n, sizeof(*scan.maps.maps));
	assert_non_null(scan.maps.maps);
	for (size_t i = 0; i < n; i++)
		scan.maps.maps[i] = (struct proc_map){
			.start = start + i * 2 * PAGE,
			.end = start + i * 2 * PAGE + PAGE,
			.executable = true,
			.readable = true,
			.path = "",
		};
	scan.maps.n = n;
	assert_int_equal(process_table__begin_scan(w->table, &scan), 0);
	assert_int_equal(scan.n_missing, 0);
	process_scan__prepare(&scan, w->files);
	return process_table__end_scan(w->table, &scan);
}

/* As the engine does it. */
static int scan_real(struct world *w, pid_t tgid, uint64_t generation)
{
	_cleanup_(process_scan) struct process_scan scan = { .generation = generation };
	int ret = process_scan__read(&scan, tgid);

	if (ret)
		return ret;
	assert_int_equal(process_table__begin_scan(w->table, &scan), 0);
	process_scan__prepare(&scan, w->files);
	return process_table__end_scan(w->table, &scan);
}

static void test_add_and_remove(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 3), *other = (void *)w;
	const struct so_process kernel = { 0 };

	assert_ptr_equal(process_table__find(w->table, 100), p);
	assert_null(process_table__find(w->table, 100 + 4096)); /* the same bucket */
	assert_int_equal(in_kernel(w, 100).slot, 3);
	assert_int_equal(in_kernel(w, 100).mappings, 0);
	assert_int_equal(process_table__add(w->table, 100, &kernel, &other), -EEXIST);
	assert_ptr_equal(other, w);
	other = add(w, 100 + 4096, 4);
	assert_ptr_equal(process_table__find(w->table, 100 + 4096), other);
	assert_int_equal(process_table__count(w->table), 2);
	process_table__remove(w->table, p);
	assert_null(process_table__find(w->table, 100));
	assert_ptr_equal(process_table__find(w->table, 100 + 4096), other);
	expect_not_in_kernel(w, 100);
	assert_int_equal(process_table__count(w->table), 1);
}

static void test_kernel_refuses(void **state)
{
	struct world *w = *state;
	const struct so_process kernel = { 0 };
	struct process *parent = add(w, 1, 0), *p = (void *)w;

	fake_sampler__fail_processes(w->sampler, -E2BIG);
	assert_int_equal(process_table__add(w->table, 100, &kernel, &p), -E2BIG);
	assert_int_equal(process_table__add_child(w->table, 101, parent, &p), -E2BIG);
	assert_ptr_equal(p, w);
	assert_null(process_table__find(w->table, 100));
	assert_null(process_table__find(w->table, 101));
	assert_int_equal(process_table__count(w->table), 1);
	assert_int_equal(process_table__set_flags(w->table, parent, 0), -E2BIG);
	assert_int_equal(scan_made_up(w, 1, PAGE, 3, 0), -E2BIG);
	fake_sampler__fail_processes(w->sampler, 0);
	assert_int_equal(scan_made_up(w, 1, PAGE, 3, 0), 0);
	assert_int_equal((uint32_t)in_kernel(w, 1).mappings, 3);
}

static void test_flags(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 0);

	assert_int_equal(process_table__set_flags(w->table, p, SO_PROCESS_ACTIVE | SO_PROCESS_KERNEL), 0);
	assert_int_equal(in_kernel(w, 100).flags, SO_PROCESS_ACTIVE | SO_PROCESS_KERNEL);
	/* A process that is gone is not entered again. */
	process_table__remove(w->table, p);
	p = add(w, 100, 0);
	p->gone = true;
	sampler__delete_process(w->sampler, 100);
	assert_int_equal(process_table__set_flags(w->table, p, 0), 0);
	expect_not_in_kernel(w, 100);
}

struct visited {
	struct process_table *remove_from;
	pid_t tgids[8];
	unsigned n;
};

static void visit(void *context, struct process *p)
{
	struct visited *v = context;

	v->tgids[v->n++] = p->tgid;
	if (v->remove_from)
		process_table__remove(v->remove_from, p);
}

static void test_each(void **state)
{
	struct world *w = *state;
	struct visited all = { 0 }, slot = { .remove_from = w->table }, rest = { 0 };

	add(w, 10, 1);
	add(w, 10 + 4096, 2);
	add(w, 10 + 2 * 4096, 1);
	add(w, 11, 1);
	process_table__each(w->table, SO_MAX_SLOTS, visit, &all);
	assert_int_equal(all.n, 4);
	process_table__each(w->table, 1, visit, &slot);
	assert_int_equal(slot.n, 3);
	process_table__each(w->table, SO_MAX_SLOTS, visit, &rest);
	assert_int_equal(rest.n, 1);
	assert_int_equal(rest.tgids[0], 10 + 4096);
}

static void test_scan_made_up(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 0);
	const struct so_mapping *m;
	uint32_t n;

	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	m = pieces(w, 100, &n);
	assert_int_equal(n, 5);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(m[i].start, 0x10000 + i * 2 * PAGE);
		assert_int_equal(m[i].end, m[i].start + PAGE);
		assert_int_equal(m[i].state, SO_MAPPING_NO_TABLE);
		assert_int_equal(m[i].file, 0);
	}
	assert_true(in_kernel(w, 100).flags & SO_PROCESS_KNOWN);
	assert_false(in_kernel(w, 100).flags & SO_PROCESS_CUT);
	assert_true(in_kernel(w, 100).flags & SO_PROCESS_FOLLOW);
	assert_int_equal(p->scans, 1);
	assert_true(p->last_scan_ns > 0);
}

/* Nothing changed: the run stays where it is. Something did: a new run, the old one is kept for a while. */
static void test_unchanged_run(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 0);
	struct so_mapping before[5];
	struct mapping_run *run;
	uint64_t mappings;

	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	run = p->run;
	mappings = in_kernel(w, 100).mappings;
	memcpy(before, sampler__mappings(w->sampler) + run->first, sizeof(before));
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	assert_ptr_equal(p->run, run);
	assert_int_equal(in_kernel(w, 100).mappings, mappings);
	assert_int_equal(scan_made_up(w, 100, 0x20000, 5, 0), 0);
	assert_int_not_equal(in_kernel(w, 100).mappings, mappings);
	assert_memory_equal(before, sampler__mappings(w->sampler) + (mappings >> 32), sizeof(before));
	assert_int_equal(p->scans, 3);
}

/*
 * The generation that was reported before the mappings were read is the one for which they are known, whatever they
 * are.
 */
static void test_reported_generation(void **state)
{
	struct world *w = *state;
	struct so_process kernel;

	add(w, 100, 0);
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	assert_int_equal(in_kernel(w, 100).generation, 0);
	kernel = in_kernel(w, 100);
	kernel.reported = 9;
	assert_int_equal(sampler__set_process(w->sampler, 100, &kernel), 0);
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 9), 0);
	assert_int_equal(in_kernel(w, 100).generation, 9);
	assert_int_equal(in_kernel(w, 100).reported, 0);
	assert_int_equal(scan_made_up(w, 100, 0x20000, 6, 11), 0);
	assert_int_equal(in_kernel(w, 100).generation, 11);
	/* Read without a report: what was known of a generation still is. */
	assert_int_equal(scan_made_up(w, 100, 0x20000, 7, 0), 0);
	assert_int_equal(in_kernel(w, 100).generation, 11);
}

/* What BPF notes in a run makes it no other one. */
static void test_seen_is_no_change(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 0);
	struct mapping_run *run;

	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	run = p->run;
	sampler__mappings(w->sampler)[run->first + 2].seen = 77;
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	assert_ptr_equal(p->run, run);
}

static void test_exec(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 7);

	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	process_table__exec(w->table, p);
	assert_null(p->run);
	assert_int_equal(in_kernel(w, 100).mappings, 0);
	assert_int_equal(in_kernel(w, 100).generation, 0);
	assert_int_equal(in_kernel(w, 100).slot, 7);
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	assert_int_equal((uint32_t)in_kernel(w, 100).mappings, 5);
	/* Twice in a row, as when it executes again before it was read. */
	process_table__exec(w->table, p);
	process_table__exec(w->table, p);
	assert_int_equal(in_kernel(w, 100).mappings, 0);
}

static void test_fork(void **state)
{
	struct world *w = *state;
	struct process *parent = add(w, 100, 7), *child = NULL, *grandchild = NULL;

	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), 0);
	assert_int_equal(process_table__add_child(w->table, 101, parent, &child), 0);
	assert_ptr_equal(child->run, parent->run);
	assert_int_equal(parent->run->refs, 2);
	assert_memory_equal(&child->kernel, &parent->kernel, sizeof(child->kernel));
	assert_int_equal(in_kernel(w, 101).mappings, in_kernel(w, 100).mappings);
	assert_int_equal(process_table__add_child(w->table, 101, parent, &grandchild), -EEXIST);
	assert_null(grandchild);
	assert_int_equal(process_table__add_child(w->table, 102, child, &grandchild), 0);
	assert_int_equal(parent->run->refs, 3);

	/* One goes its own way, the run stays with the others. */
	assert_int_equal(scan_made_up(w, 101, 0x50000, 2, 0), 0);
	assert_int_equal(parent->run->refs, 2);
	assert_ptr_not_equal(child->run, parent->run);
	process_table__exec(w->table, parent);
	assert_null(parent->run);
	assert_int_equal(grandchild->run->refs, 1);
	assert_int_equal((uint32_t)in_kernel(w, 102).mappings, 5);
	assert_int_equal(sampler__mappings(w->sampler)[grandchild->run->first].start, 0x10000);
}

static void test_fork_before_scan(void **state)
{
	struct world *w = *state;
	struct process *parent = add(w, 100, 7), *child = NULL;

	assert_int_equal(process_table__add_child(w->table, 101, parent, &child), 0);
	assert_null(child->run);
	assert_int_equal(in_kernel(w, 101).mappings, 0);
	assert_int_equal(scan_made_up(w, 101, 0x10000, 2, 0), 0);
	assert_null(parent->run);
}

/* With more mappings than fit, the lowest are served. */
static void test_many_mappings(void **state)
{
	struct world *w = *state;
	const struct so_mapping *m;
	uint32_t n;

	add(w, 100, 0);
	assert_int_equal(scan_made_up(w, 100, 0x10000, SO_MAX_PROCESS_MAPPINGS + 100, 0), 0);
	m = pieces(w, 100, &n);
	assert_int_equal(n, SO_MAX_PROCESS_MAPPINGS);
	assert_int_equal(m[0].start, 0x10000);
	assert_int_equal(m[n - 1].start, 0x10000 + (n - 1) * 2 * PAGE);
	assert_true(in_kernel(w, 100).flags & SO_PROCESS_CUT);
}

/* When the array of all mappings is full, a process keeps what it had, and its children still find it. */
static void test_mappings_used_up(void **state)
{
	struct world *w = *state;
	unsigned room = SO_MAX_MAPPINGS / SO_MAX_PROCESS_MAPPINGS;
	struct mapping_run *run;
	struct process *p;

	for (unsigned i = 0; i < room; i++) {
		add(w, 100 + (pid_t)i, 0);
		assert_int_equal(scan_made_up(w, 100 + (pid_t)i, 0x10000, SO_MAX_PROCESS_MAPPINGS, 0), 0);
	}
	p = process_table__find(w->table, 100);
	run = p->run;
	assert_int_equal(scan_made_up(w, 100, 0x20000, 5, 0), -ENOSPC);
	assert_ptr_equal(p->run, run);
	assert_int_equal((uint32_t)in_kernel(w, 100).mappings, SO_MAX_PROCESS_MAPPINGS);
	assert_int_equal(p->scans, 1);
	/* What another gives back is not free at once: a sample may still be reading it. */
	process_table__remove(w->table, process_table__find(w->table, 101));
	assert_int_equal(scan_made_up(w, 100, 0x20000, 5, 0), -ENOSPC);
}

static void test_scan_of_removed(void **state)
{
	struct world *w = *state;
	struct process *p = add(w, 100, 0);

	p->gone = true;
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), -ENOENT);
	process_table__remove(w->table, p);
	assert_int_equal(scan_made_up(w, 100, 0x10000, 5, 0), -ENOENT);
	assert_int_equal(process_table__count(w->table), 0);
}

static void test_scan_of_nobody(void **state)
{
	struct world *w = *state;
	struct process_scan scan = { .generation = 3 };
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	add(w, pid, 0);
	assert_int_equal(process_scan__read(&scan, pid), -ESRCH); /* a zombie has no mappings */
	assert_int_equal(scan.generation, 3);
	waitpid(pid, NULL, 0);
	assert_int_equal(process_scan__read(&scan, pid), -ESRCH);
	process_scan__release(&scan);
}

/* Whether it waits in clock_nanosleep. */
static bool sleeps(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], text[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	f = fopen(path, "r");
	return f && fgets(text, sizeof(text), f) && atoi(text) == SYS_clock_nanosleep;
}

/* Returns when the program sleeps: its libraries are mapped then. */
static pid_t start(struct world *w, char *const argv[])
{
	const struct timespec pause = { .tv_nsec = 2000000 };

	w->child = fork();
	assert_true(w->child >= 0);
	if (!w->child) {
		execvp(argv[0], argv);
		_exit(127);
	}
	for (unsigned i = 0; i < 50000; i++) {
		if (sleeps(w->child))
			return w->child;
		nanosleep(&pause, NULL);
	}
	fail_msg("%s did not come to sleep", argv[0]);
	return -1;
}

/* A real process: its files' tables are in the pool, and each piece of its mappings leads to its file's. */
static void test_real(void **state)
{
	struct world *w = *state;
	pid_t pid = start(w, (char *const[]){ "sleep", "60", NULL });
	const struct so_mapping *m;
	unsigned with_table = 0, vdso = 0, libc = 0;
	struct mapping_run *run;
	uint32_t n;

	add(w, pid, 0);
	assert_int_equal(scan_real(w, pid, 0), 0);
	m = pieces(w, pid, &n);
	assert_true(n >= 4); /* sleep, libc, ld.so, vdso */
	for (uint32_t i = 0; i < n; i++) {
		const struct file_entry *file = file_registry__get(w->files, m[i].file);

		assert_true(m[i].start < m[i].end && (!i || m[i - 1].end <= m[i].start));
		with_table += m[i].state == SO_MAPPING_TABLE;
		if (!file)
			continue;
		vdso += !strcmp(file->path, "[vdso]");
		libc += strstr(file->path, "/libc.so") != NULL;
		assert_int_equal(m[i].bias % PAGE, 0);
		assert_true(m[i].state != SO_MAPPING_TABLE || m[i].n_blocks > 0);
	}
	assert_true(with_table >= 4);
	assert_int_equal(vdso, 1);
	assert_int_equal(libc, 1);
	run = process_table__find(w->table, pid)->run;
	assert_int_equal(scan_real(w, pid, 0), 0);
	assert_ptr_equal(process_table__find(w->table, pid)->run, run);
}

/* This process maps and unmaps code: a new run each time, the old one again when all is as it was. */
static void test_change(void **state)
{
	struct world *w = *state;
	uint32_t before, with, after;
	void *code;

	add(w, getpid(), 0);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	pieces(w, getpid(), &before);
	code = mmap(NULL, 3 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(code, MAP_FAILED);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	pieces(w, getpid(), &with);
	assert_int_equal(with, before + 1);
	munmap(code, 3 * PAGE);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	pieces(w, getpid(), &after);
	assert_int_equal(after, before);
}

/* Anonymous code at the same place that is not the code any more from which rules were learned. */
static void test_learned_code_changes(void **state)
{
	struct world *w = *state;
	uint8_t *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct effect_row row = { .address = 16,
				  .length = 32,
				  .rule = { .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 24 } };
	const struct effect_rows rows = { .rows = &row, .n = 1 };
	struct process *p = add(w, getpid(), 0);
	struct learned_mapping *learned;
	const struct so_mapping *m;
	uint32_t n, i;

	assert_ptr_not_equal(code, MAP_FAILED);
	memset(code, 0x90, PAGE);
	learned = process__learned(p, (uintptr_t)code, (uintptr_t)code + PAGE);
	assert_non_null(learned);
	assert_ptr_equal(process__learned(p, (uintptr_t)code, (uintptr_t)code + PAGE), learned);
	assert_int_equal(learned_code__add(&learned->code, &rows), 0);
	assert_int_equal(process_table__publish_learned(w->table, p, learned), 0);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	m = pieces(w, getpid(), &n);
	for (i = 0; i < n && m[i].start != (uintptr_t)code; i++)
		;
	assert_true(i < n);
	assert_int_equal(m[i].state, SO_MAPPING_TABLE);
	assert_int_equal(m[i].bias, (uintptr_t)code);
	assert_false(process_table__code_changed(w->table, p));
	code[0] = 0xc3; /* outside what was learned from */
	assert_false(process_table__code_changed(w->table, p));
	code[20] = 0xc3;
	assert_true(process_table__code_changed(w->table, p));
	assert_null(p->learned);
	assert_int_equal(p->forgotten, 1);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	m = pieces(w, getpid(), &n);
	for (i = 0; i < n && m[i].start != (uintptr_t)code; i++)
		;
	assert_true(i < n);
	assert_int_equal(m[i].state, SO_MAPPING_NO_TABLE);
	munmap(code, PAGE);
}

static bool hangs;

static void hang(pid_t pid)
{
	while (__atomic_load_n(&hangs, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/* A process whose memory cannot be read for now keeps what was learned of it. */
static void test_learned_code_that_cannot_be_read(void **state)
{
	struct effect_row row = { .address = 16,
				  .length = 32,
				  .rule = { .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 24 } };
	const struct effect_rows rows = { .rows = &row, .n = 1 };
	void *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
			  -1, 0);
	struct world *w = *state;
	struct process *p = add(w, getpid(), 0);
	struct learned_mapping *learned;

	assert_ptr_not_equal(code, MAP_FAILED);
	learned = process__learned(p, (uintptr_t)code, (uintptr_t)code + PAGE);
	assert_non_null(learned);
	assert_int_equal(learned_code__add(&learned->code, &rows), 0);
	assert_int_equal(process_table__publish_learned(w->table, p, learned), 0);
	hangs = true;
	set_try(hang, 20);
	assert_false(process_table__code_changed(w->table, p));
	assert_ptr_equal(p->learned, learned);
	assert_int_equal(p->forgotten, 0);
	__atomic_store_n(&hangs, false, __ATOMIC_RELEASE);
	for (int i = 0; i < 10000 && n_stuck(); i++)
		usleep(2000);
	assert_int_equal(n_stuck(), 0);
	set_try(NULL, 0);
	forgive();
	assert_false(process_table__code_changed(w->table, p));
	munmap(code, PAGE);
}

static const struct so_mapping *piece_at(struct world *w, const void *code)
{
	uint32_t n;
	const struct so_mapping *m = pieces(w, getpid(), &n);

	for (uint32_t i = 0; i < n; i++) {
		if (m[i].start == (uintptr_t)code)
			return &m[i];
	}
	return NULL;
}

/* One of three functions is another: what was learned of the others stays, and it does not count as replaced. */
static void test_learned_code_changes_in_part(void **state)
{
	struct world *w = *state;
	uint8_t *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct process *p = add(w, getpid(), 0);
	struct learned_mapping *learned;

	assert_ptr_not_equal(code, MAP_FAILED);
	memset(code, 0x90, PAGE);
	learned = process__learned(p, (uintptr_t)code, (uintptr_t)code + PAGE);
	assert_non_null(learned);
	for (uint32_t i = 0; i < 3; i++) {
		const struct so_unwind_rule rule = { .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 24 };
		struct effect_row row[] = { { .address = 64 * i, .length = 8, .rule = rule },
					    { .address = 64 * i + 8, .length = 8, .rule = rule } };

		assert_int_equal(learned_code__add(&learned->code, &(struct effect_rows){ .rows = row, .n = 2 }), 0);
	}
	assert_int_equal(process_table__publish_learned(w->table, p, learned), 0);
	assert_false(process_table__code_changed(w->table, p));
	code[64 + 12] = 0xc3;
	assert_true(process_table__code_changed(w->table, p));
	assert_ptr_equal(p->learned, learned);
	assert_int_equal(p->forgotten, 0);
	assert_int_equal(learned->code.n, 4);
	assert_non_null(learned_code__find(&learned->code, 0));
	assert_null(learned_code__find(&learned->code, 64)); /* learned with the one that changed */
	assert_null(learned_code__find(&learned->code, 72));
	assert_non_null(learned_code__find(&learned->code, 128));
	assert_int_equal(learned->code.published, 4);
	assert_false(process_table__code_changed(w->table, p));
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	munmap(code, PAGE);
}

/* Code in no file is not learned for a while when it was replaced too often; that it goes, or grows, does not count. */
static void test_learning_goes_on(void **state)
{
	struct world *w = *state;
	struct effect_row row = { .address = 16,
				  .length = 32,
				  .rule = { .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 24 } };
	const struct effect_rows rows = { .rows = &row, .n = 1 };
	struct process *p = add(w, getpid(), 0);
	uint32_t learnable = 0, n;

	for (unsigned i = 0; i < 2 * PROCESS_MAX_FORGOTTEN; i++) {
		uint8_t *code = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct learned_mapping *learned;

		assert_ptr_not_equal(code, MAP_FAILED);
		code += PAGE;
		assert_int_equal(mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
		*code = 0x90; /* what was never touched is not read */
		learned = process__learned(p, (uintptr_t)code, (uintptr_t)code + PAGE);
		assert_int_equal(learned_code__add(&learned->code, &rows), 0);
		assert_int_equal(process_table__publish_learned(w->table, p, learned), 0);
		assert_int_equal(mprotect(code, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
		assert_int_equal(scan_real(w, getpid(), 0), 0);
		assert_ptr_equal(p->learned, learned);
		assert_int_equal(learned->end, (uintptr_t)code + 2 * PAGE);
		assert_int_equal(piece_at(w, code)->state, SO_MAPPING_TABLE);
		munmap(code - PAGE, 3 * PAGE);
		assert_int_equal(scan_real(w, getpid(), 0), 0);
		assert_null(p->learned);
	}
	assert_int_equal(p->forgotten, 0);

	/* One that was replaced too often. What is in files is learned all the same. */
	for (unsigned round = 0; round < 3; round++) {
		uint8_t *code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const struct so_mapping *all;

		assert_ptr_not_equal(code, MAP_FAILED);
		p->forgotten = round ? PROCESS_MAX_FORGOTTEN : 0;
		p->forgotten_ns = clock__now_ns() - (round == 2 ? PROCESS_FORGOTTEN_NS : 0);
		assert_int_equal(process__learns_again(p), round == 2);
		assert_false(process__learns_again(p));
		assert_int_equal(scan_real(w, getpid(), 0), 0);
		assert_int_equal(!!(piece_at(w, code)->flags & SO_MAPPING_LEARN), round != 1);
		all = pieces(w, getpid(), &n);
		for (uint32_t i = 0; i < n; i++)
			learnable += all[i].file && all[i].flags & SO_MAPPING_LEARN;
		assert_true(learnable > 2 * (round + 1));
		munmap(code, PAGE);
	}
	process_table__exec(w->table, p);
	assert_int_equal(p->forgotten, 0);
}

/* The files of a run are in use as long as a process has the run, be it the parent or a forked child. */
static void test_uses_of_files(void **state)
{
	struct world *w = *state;
	pid_t pid = start(w, (char *const[]){ "sleep", "60", NULL });
	struct process *p = add(w, pid, 0), *child = NULL;
	uint64_t files;

	assert_int_equal(scan_real(w, pid, 0), 0);
	files = file_registry__stats(w->files).files;
	assert_true(files >= 3);
	assert_int_equal(file_registry__stats(w->files).idle, 0);
	assert_int_equal(scan_real(w, pid, 0), 0); /* nothing has changed */
	assert_int_equal(process_table__add_child(w->table, 4000001, p, &child), 0);
	assert_ptr_equal(child->run, p->run);
	process_table__remove(w->table, p);
	assert_int_equal(file_registry__stats(w->files).idle, 0);
	process_table__exec(w->table, child);
	assert_int_equal(file_registry__stats(w->files).idle, files);
	assert_true(file_registry__retire_idle(w->files, 0, 1, UINT64_MAX));
	assert_int_equal(file_registry__stats(w->files).retired, files);
	process_table__remove(w->table, child);

	/* Its files are prepared anew. */
	add(w, pid, 0);
	assert_int_equal(scan_real(w, pid, 0), 0);
	assert_int_equal(file_registry__stats(w->files).files, files);
	assert_int_equal(file_registry__stats(w->files).idle, 0);
}

/* A file that is retired between the two halves of a scan: the process is to be scanned again. */
static void test_retired_during_scan(void **state)
{
	struct world *w = *state;
	pid_t pid = start(w, (char *const[]){ "sleep", "60", NULL });

	add(w, pid, 0);
	assert_int_equal(scan_real(w, pid, 0), 0);
	process_table__exec(w->table, process_table__find(w->table, pid));
	for (unsigned round = 0; round < 2; round++) {
		_cleanup_(process_scan) struct process_scan scan = { 0 };

		assert_int_equal(process_scan__read(&scan, pid), 0);
		assert_int_equal(process_table__begin_scan(w->table, &scan), 0);
		assert_int_equal(scan.n_missing > 0, round);
		if (!round)
			assert_true(file_registry__retire_idle(w->files, 0, 1, UINT64_MAX));
		process_scan__prepare(&scan, w->files);
		assert_int_equal(process_table__end_scan(w->table, &scan), 0);
		assert_int_equal(scan.again, !round);
	}
}

static uint32_t index_of(struct world *w, const void *code)
{
	uint32_t n, i;
	const struct so_mapping *m = pieces(w, getpid(), &n);

	for (i = 0; i < n && m[i].start != (uintptr_t)code; i++)
		;
	assert_true(i < n);
	return m[i].state == SO_MAPPING_TABLE ? m[i].index : UINT32_MAX;
}

/* What was published of anonymous code stays where the process's run leads to, and goes with it. */
static void test_learned_code_is_given_back(void **state)
{
	struct world *w = *state;
	uint8_t *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct effect_row row = { .address = 16,
				  .length = 8,
				  .rule = { .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 24 } };
	const struct effect_rows rows = { .rows = &row, .n = 1 };
	struct process *p = add(w, getpid(), 0);
	struct learned_mapping *learned;
	uint64_t words;
	uint32_t first;

	assert_ptr_not_equal(code, MAP_FAILED);
	memset(code, 0x90, PAGE);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	words = table_pool__stats(w->pool).index_words;
	learned = process__learned(p, (uintptr_t)code, (uintptr_t)code + PAGE);
	assert_int_equal(learned_code__add(&learned->code, &rows), 0);
	assert_int_equal(process_table__publish_learned(w->table, p, learned), 0);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	first = index_of(w, code);
	assert_int_equal(table_pool__stats(w->pool).index_words, words + 2);
	row.address = 64;
	assert_int_equal(learned_code__add(&learned->code, &rows), 0);
	assert_int_equal(process_table__publish_learned(w->table, p, learned), 0);
	/* The kernel side still has the first. */
	assert_int_equal(index_of(w, code), first);
	assert_int_equal(table_pool__stats(w->pool).index_words, words + 4);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	assert_int_not_equal(index_of(w, code), first);
	assert_int_equal(table_pool__stats(w->pool).index_words, words + 2);
	memset(code, 0xc3, PAGE);
	assert_true(process_table__code_changed(w->table, p));
	assert_int_equal(table_pool__stats(w->pool).index_words, words + 2);
	assert_int_equal(scan_real(w, getpid(), 0), 0);
	assert_int_equal(index_of(w, code), UINT32_MAX);
	assert_int_equal(table_pool__stats(w->pool).index_words, words);
	munmap(code, PAGE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(add_and_remove),
		TEST(kernel_refuses),
		TEST(flags),
		TEST(each),
		TEST(scan_made_up),
		TEST(unchanged_run),
		TEST(reported_generation),
		TEST(seen_is_no_change),
		TEST(exec),
		TEST(fork),
		TEST(fork_before_scan),
		TEST(many_mappings),
		TEST(mappings_used_up),
		TEST(scan_of_removed),
		TEST(scan_of_nobody),
		TEST(real),
		TEST(change),
		TEST(learned_code_changes),
		TEST(learned_code_that_cannot_be_read),
		TEST(learned_code_changes_in_part),
		TEST(learning_goes_on),
		TEST(uses_of_files),
		TEST(retired_during_scan),
		TEST(learned_code_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
