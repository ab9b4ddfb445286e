// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Steps a process through library code, one instruction at a time, and at each compares the frames that stakeout's
 * unwinder finds, by the tables that the daemon would load, with those of the referees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/processes/process_table.h"
#include "tests/golden/referee.h"
#include "tests/golden/user_space.h"

#define MAX_STACK (64u << 10) /* read at each step; what lies beyond is read one by one */
#define RED_ZONE  256

struct live {
	struct sampler *sampler;
	struct table_pool *pool;
	struct file_registry *files;
	struct process_table *table;
	struct referee *referee;
	pid_t pid;
	uint64_t mappings;
	uint64_t regs[TRACEE_REGS];
	uint64_t stack_at;
	size_t stack_bytes;
	uint8_t stack[MAX_STACK];
	struct so_unwind u;
	struct referee_frame frames[REFEREE_MAX_FRAMES];
	uint64_t steps, deepest, distinct, leaped, without_rules;
	uint8_t seen[1 << 16]; /* instructions that were compared, by a hash of their address */
};

static bool read_live(void *context, void *dst, uint32_t bytes, uint64_t address)
{
	struct live *l = context;
	uint64_t off = address - l->stack_at;

	if (off < l->stack_bytes && bytes <= l->stack_bytes - off) {
		memcpy(dst, l->stack + off, bytes);
		return true;
	}
	return tracee__read(l->pid, dst, bytes, address);
}

static bool read_word(void *context, uint64_t address, uint64_t *word)
{
	return read_live(context, word, sizeof(*word), address);
}

static const char *program_path(const char *name, char *path, size_t size)
{
	char exe[PATH_MAX - 64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	assert_true(n > 0);
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	snprintf(path, size, "%s/../golden/targets/%s", exe, name);
	return path;
}

struct wanted_symbol {
	const char *name;
	uint64_t address;
};

static int look_for_symbol(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, void *arg)
{
	struct wanted_symbol *wanted = arg;
	int n = dwfl_module_getsymtab(mod);

	for (int i = 0; i < n; i++) {
		GElf_Sym sym;
		GElf_Addr address;
		const char *found = dwfl_module_getsym_info(mod, i, &sym, &address, NULL, NULL, NULL);

		if (found && !strcmp(found, wanted->name) && sym.st_shndx != SHN_UNDEF &&
		    GELF_ST_TYPE(sym.st_info) == STT_FUNC) {
			wanted->address = address;
			return DWARF_CB_ABORT;
		}
	}
	return DWARF_CB_OK;
}

static uint64_t symbol_address(struct live *l, const char *name)
{
	struct wanted_symbol wanted = { .name = name };

	dwfl_getmodules(referee__dwfl(l->referee), look_for_symbol, &wanted, 0);
	if (!wanted.address)
		fail_msg("no symbol %s", name);
	return wanted.address;
}

/* The process's mappings and its files' tables, as the daemon learns them. */
static void learn_mappings(struct live *l)
{
	_cleanup_(process_scan) struct process_scan scan = { 0 };
	const struct so_process kernel = { .flags = SO_PROCESS_ACTIVE };
	struct so_process now;
	struct process *p;

	assert_int_equal(process_table__add(l->table, l->pid, &kernel, &p), 0);
	assert_int_equal(process_scan__read(&scan, l->pid), 0);
	assert_int_equal(process_table__begin_scan(l->table, &scan), 0);
	process_scan__prepare(&scan, l->files);
	assert_int_equal(process_table__end_scan(l->table, &scan), 0);
	assert_int_equal(sampler__get_process(l->sampler, l->pid, &now), 0);
	l->mappings = now.mappings;
}

static int set_up(void **state)
{
	struct live *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->sampler = fake_sampler__new();
	assert_non_null(l->sampler);
	assert_int_equal(table_pool__new(l->sampler, &l->pool), 0);
	assert_int_equal(file_registry__new(l->pool, NULL, "", &l->files, NULL), 0);
	assert_int_equal(process_table__new(l->sampler, l->files, l->pool, &l->table), 0);
	user_space.sampler = l->sampler;
	user_space.read = read_live;
	user_space.context = l;
	*state = l;
	return 0;
}

static int tear_down(void **state)
{
	struct live *l = *state;

	if (l->pid)
		tracee__kill(l->pid);
	referee__free(l->referee);
	process_table__free(l->table);
	file_registry__free(l->files);
	table_pool__free(l->pool);
	sampler__free(l->sampler);
	free(l);
	return 0;
}

/* Starts the program and stops it in `symbol`; skips the test, visibly, where ptrace is not permitted. */
static void start(struct live *l, const char *program, const char *symbol)
{
	char path[PATH_MAX];
	char *argv[] = { (char *)program_path(program, path, sizeof(path)), NULL };
	int ret = tracee__start(argv, NULL, &l->pid);
	pid_t tid;

	if (ret == -EPERM || ret == -EACCES) {
		print_message("ptrace is not permitted here\n");
		skip();
	}
	assert_int_equal(ret, 0);
	l->referee = referee__new(l->pid);
	assert_non_null(l->referee);
	assert_int_equal(tracee__run_to(l->pid, symbol_address(l, symbol), 1, &tid), 0);
	learn_mappings(l);
}

/* What stakeout calls the frame at a process address. */
static uint64_t frame_at(struct live *l, uint64_t address)
{
	uint32_t first = l->mappings >> 32, found = uw_search_mappings(first, (uint32_t)l->mappings, address);
	const struct so_mapping *m;

	if (!found)
		return SO_FRAME(0, address);
	m = uw_mapping(first + found - 1);
	return address < m->end && m->file ? SO_FRAME(m->file, address - m->bias) : SO_FRAME(0, address);
}

static void print_difference(struct live *l, size_t n, int answer)
{
	print_message("step %" PRIu64 ", pc %#" PRIx64 ", cause %u, referee says %d\n", l->steps,
		      l->regs[TRACEE_PC], l->u.cause, answer);
	for (size_t i = 0; i < n || i < l->u.n; i++) {
		uint64_t pc = i < n ? l->frames[i].pc : 0;
		const char *name = NULL;
		Dwfl_Module *mod = dwfl_addrmodule(referee__dwfl(l->referee), pc);

		if (mod)
			name = dwfl_module_addrname(mod, pc);
		print_message("%3zu %#16llx | %#" PRIx64 "%s %s\n", i,
			      i < l->u.n ? (unsigned long long)l->u.frames[i] : 0, pc,
			      i < n && l->frames[i].exact ? " (exact)" : "", name ?: "?");
	}
}

/*
 * All frames, from the innermost to the outermost. Where the referee has no unwind information any more, what it has
 * must be ours; frame pointers may lead on. Where the caller's rsp is not the CFA, which our rules cannot say (the end
 * of longjmp), the walk must be cut.
 */
static bool same_frames(struct live *l, int answer, size_t n)
{
	bool same = true;

	for (size_t i = 0; same && i < n; i++) {
		bool is_return = !l->frames[i].exact && !l->frames[i].signal;

		same = i < l->u.n && l->u.frames[i] == frame_at(l, l->frames[i].pc - is_return);
		if (l->frames[i].leaped) {
			l->leaped++;
			return same && l->u.cause != SO_TRUNC_NONE;
		}
	}
	if (answer == -ENODATA) {
		l->without_rules++;
		return same && (l->u.cause == SO_TRUNC_NO_RULES || l->u.cause == SO_TRUNC_FP_ROOT ||
				l->u.flags & SO_STACK_FRAME_POINTER);
	}
	return same && !answer && l->u.cause == SO_TRUNC_NONE && l->u.n == n;
}

static void compare_step(struct live *l)
{
	uint64_t hash;
	int answer;
	size_t n;

	assert_int_equal(tracee__regs(l->pid, l->regs), 0);
	l->stack_at = (l->regs[SO_REG_RSP] & ~7ull) - RED_ZONE;
	l->stack_bytes = tracee__read_some(l->pid, l->stack, MAX_STACK, l->stack_at);
	answer = referee__frames(l->referee, l->regs, read_word, l, l->frames, &n);
	memcpy(l->u.regs, l->regs, sizeof(l->u.regs));
	user_space__unwind(&l->u, l->regs[TRACEE_PC], l->mappings);
	if (!same_frames(l, answer, n)) {
		print_difference(l, n, answer);
		fail_msg("the stacks differ");
	}
	hash = l->regs[TRACEE_PC] * 0x9e3779b97f4a7c15ull >> 48;
	l->distinct += !l->seen[hash];
	l->seen[hash] = 1;
	if (n > l->deepest)
		l->deepest = n;
	l->steps++;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Steps from `symbol` on, until the process ends or `max_steps` are done. */
static void step_through(struct live *l, const char *program, const char *symbol, uint64_t max_steps)
{
	double begin;

	start(l, program, symbol);
	begin = now_s();
	while (l->steps < max_steps) {
		compare_step(l);
		if (tracee__step(l->pid)) {
			l->pid = 0; /* it has ended */
			break;
		}
	}
	print_message("%s from %s: %" PRIu64 " steps at %" PRIu64 " places, up to %" PRIu64
		      " frames, all equal; libdwfl had less in %" PRIu64 ", no information in %" PRIu64
		      ", longjmp in %" PRIu64 "; %.1f s\n",
		      program, symbol, l->steps, l->distinct, l->deepest, referee__short(l->referee),
		      l->without_rules, l->leaped, now_s() - begin);
	assert_true(l->without_rules <= 200); /* the C start-up files, which run last, have none */
	assert_true(l->leaped <= l->steps / 100);
}

#define STEPS(test, program, symbol, max, least)                        \
	static void test_##test(void **state)                           \
	{                                                               \
		step_through(*state, program, symbol, max);             \
		assert_true(((struct live *)*state)->steps >= (least)); \
	}

STEPS(sort, "library_calls", "sort", 3000, 3000)
STEPS(print, "library_calls", "print", 6000, 6000)
STEPS(match, "library_calls", "match", 4000, 4000)
STEPS(allocate, "library_calls", "allocate", 3000, 3000)
STEPS(times, "library_calls", "times", 3000, 3000)
STEPS(strings, "library_calls", "strings", 2000, 2000)
STEPS(signal, "library_calls", "interrupt", 4000, 4000)
STEPS(longjmp, "library_calls", "jump", 2000, 2000)
STEPS(realigned, "library_calls", "realign", 100000, 3000) /* to the process's end */
STEPS(prologue, "prologue", "middle", 100000, 100) /* every instruction of both exits, to the process's end */
STEPS(throw, "throw", "main", 15000, 15000)
STEPS(static, "library_calls-static", "print", 4000, 4000)

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(sort),   TEST(print),   TEST(match),     TEST(allocate), TEST(times), TEST(strings),
		TEST(signal), TEST(longjmp), TEST(realigned), TEST(prologue), TEST(throw), TEST(static),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
