// SPDX-License-Identifier: GPL-2.0-or-later
/* The functions of a Go program and their unwind rules, by the table of its runtime; and that table damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/elf/go_functions.h"
#include "daemon/unwind/unwind_table.h"
#include "stakeout/cleanup.h"

struct program {
	uint8_t *bytes;
	size_t size;
	struct elf_image image;
	struct go_functions functions;
	struct unwind_table *table;
};

/* It is built where there is Go; -1 elsewhere. */
static int open_program(void)
{
	char self[PATH_MAX] = "", path[PATH_MAX + 64];

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(path, sizeof(path), "%s/../../workloads/go_sim-stripped", dirname(self));
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int set_up(void **state)
{
	static struct program p;
	_cleanup_close_ int fd = open_program();
	struct stat st;

	*state = NULL;
	if (fd < 0)
		return 0;
	assert_int_equal(fstat(fd, &st), 0);
	p.size = (size_t)st.st_size;
	p.bytes = malloc(p.size);
	assert_non_null(p.bytes);
	assert_int_equal(pread(fd, p.bytes, p.size, 0), st.st_size);
	p.image = elf_image__of_memory(p.bytes, p.size);
	assert_int_equal(go_functions__read(&p.image, &p.functions), 0);
	assert_int_equal(unwind_table__compile_memory(p.bytes, p.size, &p.table, NULL), 0);
	*state = &p;
	return 0;
}

static int tear_down(void **state)
{
	struct program *p = *state;

	if (!p)
		return 0;
	go_functions__release(&p->functions);
	unwind_table__free(p->table);
	free(p->bytes);
	return 0;
}

/* The one of that name that is written in assembly, or not. */
static struct go_function find(const struct program *p, const char *name, bool assembly)
{
	struct go_function f;

	for (uint32_t i = 0; i < p->functions.n; i++) {
		assert_true(go_functions__get(&p->functions, i, &f));
		if (!strcmp(go_functions__name(&p->functions, &f), name) && !(f.flags & GO_ASSEMBLY) == !assembly)
			return f;
	}
	fail_msg("no function %s", name);
	return f;
}

/* How many bytes of a function have a rule of the kind. */
static unsigned count(const struct program *p, const struct go_function *f, enum so_cfa_kind kind)
{
	unsigned n = 0;

	for (uint64_t at = f->start; at < f->end; at++) {
		const struct so_unwind_rule *rule = unwind_table__lookup(p->table, at);

		n += rule && rule->cfa_kind == kind;
	}
	return n;
}

static unsigned count_in(const struct program *p, const char *name, enum so_cfa_kind kind)
{
	struct go_function f = find(p, name, true);

	return count(p, &f, kind);
}

static void test_plain(void **state)
{
	const struct program *p = *state;
	const struct so_unwind_rule *rule;
	unsigned deep = 0;
	struct go_function f;

	if (!p)
		skip();
	f = find(p, "main.grow", false);
	assert_int_equal(f.flags, 0);
	assert_true(unwind_table__sound(p->table));
	for (uint64_t at = f.start; at < f.end; at++) {
		rule = unwind_table__lookup(p->table, at);
		assert_non_null(rule);
		assert_int_equal(rule->cfa_kind, SO_CFA_REG);
		assert_int_equal(rule->cfa_reg, SO_REG_RSP);
		if (rule->cfa_off == 8)
			continue;
		deep++;
		assert_true(rule->cfa_off > 800); /* its array */
		assert_int_equal(rule->saves & 15, SO_SAVE_CFA);
		assert_int_equal(rule->rbp_off, -16);
	}
	assert_true(deep > (f.end - f.start) / 2);
}

static void test_runtime(void **state)
{
	const struct program *p = *state;
	struct go_function f;

	if (!p)
		skip();
	f = find(p, "runtime.goexit", true);
	assert_int_equal(count(p, &f, SO_CFA_END), f.end - f.start);
	assert_true(count_in(p, "runtime.mstart", SO_CFA_END) > 0);
	assert_true(count_in(p, "runtime.mcall", SO_CFA_END) > 0);
	assert_true(count_in(p, "runtime.mcall", SO_CFA_REG) > 0);
	assert_true(count_in(p, "runtime.systemstack", SO_CFA_GO_STACK) > 0);
	assert_true(count_in(p, "runtime.morestack", SO_CFA_GO_STACK) > 0);
	assert_true(count_in(p, "runtime.asmcgocall", SO_CFA_GO_CGO) > 0);
	assert_true(count_in(p, "time.now", SO_CFA_GO_FRAME) > 0);
	assert_int_equal(count_in(p, "runtime.cgocallback", SO_CFA_UNSUPPORTED), 0);
	f = find(p, "runtime.sigreturn", true);
	assert_int_equal(unwind_table__lookup(p->table, f.start - 1)->cfa_kind, SO_CFA_SIGNAL);
}

/* The program's own C functions keep their rules. */
static void test_entries(void **state)
{
	const struct program *p = *state;

	if (!p)
		skip();
	assert_true(p->table->n_fdes > 3);
	assert_int_equal(p->table->n_bad_fdes, 0);
}

/* Whatever is in the table, what comes of it can be searched. */
static void test_damaged(void **state)
{
	const struct program *p = *state;
	uint64_t begin;

	if (!p)
		skip();
	begin = p->functions.names_at - p->functions.names;
	srandom(1);
	for (unsigned i = 0; i < 60; i++) {
		_cleanup_(unwind_table) struct unwind_table *t = NULL;
		/* The head, the first functions, or anywhere. */
		uint64_t span = i % 3 == 0 ? 72 : i % 3 == 1 ? p->functions.size : 4096;
		uint64_t at = begin + (i % 3 == 2 ? p->functions.functions : 0) + (uint64_t)random() % span;
		uint8_t old;

		if (at >= begin + p->functions.size)
			continue;
		old = p->bytes[at];
		p->bytes[at] ^= (uint8_t)(1 + random() % 255);
		if (!unwind_table__compile_memory(p->bytes, p->size, &t, NULL))
			assert_true(unwind_table__sound(t));
		p->bytes[at] = old;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_runtime),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
