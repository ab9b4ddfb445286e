// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compiled tables of this system's own files against libdw, which executes the call-frame program anew for each
 * address: at every row boundary, just before it, and at random addresses the two must say the same. With
 * `--compare FILE...` it takes those files instead; with names alone it measures them: one line a file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/unit/table_bytes.h"

#define RANDOM_PCS 20000
#define PADDING    16 /* shorter gaps keep the rule before them (unwind_table.h) */

CLEANUP_DEFINE(Elf *, elf, elf_end)

struct referee {
	const struct unwind_table *table;
	Dwarf_CFI *cfi;
	const char *name;
	uint32_t n_bad, n_fdes;
	uint64_t compared, covered, unanswered, kinds[SO_CFA_KINDS], reg_other, saves[4];
};

/* A base register of an operation, and its offset. */
static bool base_register(const Dwarf_Op *op, uint64_t *reg, int64_t *offset)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*offset = (int64_t)op->number;
		return *reg < SO_NREGS;
	}
	*reg = op->number;
	*offset = (int64_t)op->number2;
	return op->atom == DW_OP_bregx && *reg < SO_NREGS;
}

static bool is_plt(const Dwarf_Op *ops, size_t n)
{
	return n == 9 && ops[1].atom == DW_OP_breg16 && ops[2].atom == DW_OP_lit15 && ops[3].atom == DW_OP_and &&
	       ops[4].atom >= DW_OP_lit0 && ops[4].atom <= DW_OP_lit15 && ops[5].atom == DW_OP_ge &&
	       ops[6].atom == DW_OP_lit3 && ops[7].atom == DW_OP_shl && ops[8].atom == DW_OP_plus;
}

static bool is_element(const Dwarf_Op *ops, size_t n)
{
	return n == 7 && ops[1].atom >= DW_OP_breg1 && ops[1].atom <= DW_OP_breg15 && !ops[1].number &&
	       ops[2].atom == DW_OP_lit8 && ops[3].atom == DW_OP_mul && ops[4].atom == DW_OP_plus &&
	       ops[5].atom == DW_OP_deref && ops[6].atom == DW_OP_plus_uconst;
}

static bool expect_cfa(Dwarf_Frame *frame, struct so_unwind_rule *rule)
{
	Dwarf_Op *ops;
	size_t n;
	uint64_t reg;
	int64_t offset;

	if (dwarf_frame_cfa(frame, &ops, &n) || n < 1 || !base_register(&ops[0], &reg, &offset))
		return false;
	rule->cfa_reg = (uint8_t)reg;
	rule->cfa_off = (int32_t)offset;
	if (n == 1)
		rule->cfa_kind = SO_CFA_REG;
	else if (n <= 3 && ops[1].atom == DW_OP_deref && (n == 2 || ops[2].atom == DW_OP_plus_uconst))
		rule->cfa_kind = SO_CFA_DEREF;
	else if (is_plt(ops, n))
		rule->cfa_kind = SO_CFA_PLT;
	else if (is_element(ops, n))
		rule->cfa_kind = SO_CFA_INDEXED;
	else
		return false;
	if (rule->cfa_kind == SO_CFA_INDEXED) {
		rule->cfa_reg = SO_CFA_REGS(reg, ops[1].atom - DW_OP_breg0);
		rule->cfa_off2 = (int32_t)ops[6].number;
	}
	if (rule->cfa_kind == SO_CFA_DEREF && n == 3)
		rule->cfa_off2 = (int32_t)ops[2].number;
	if (rule->cfa_kind == SO_CFA_PLT)
		rule->cfa_off2 = ops[4].atom - DW_OP_lit0;
	return true;
}

/* libdw's words for a column: "CFA plus constant", as an address. */
static bool at_cfa(const Dwarf_Op *ops, size_t n, int64_t *offset)
{
	if (n < 1 || n > 2 || ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	*offset = n == 2 ? (int64_t)ops[1].number : 0;
	return n == 1 || ops[1].atom == DW_OP_plus_uconst;
}

static uint8_t expect_save(Dwarf_Frame *frame, int reg, const struct so_unwind_rule *rule, int16_t *field)
{
	Dwarf_Op mem[3], *ops;
	uint64_t base;
	int64_t offset;
	size_t n;

	assert_int_equal(dwarf_frame_register(frame, reg, mem, &ops, &n), 0);
	if (!n)
		return ops ? SO_SAVE_UNDEFINED : SO_SAVE_SAME;
	if (at_cfa(ops, n, &offset) && offset == (int16_t)offset) {
		*field = (int16_t)offset;
		return SO_SAVE_CFA;
	}
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa) /* an expression begins with the CFA on the stack */
		ops++, n--;
	if (n != 1 || !base_register(&ops[0], &base, &offset))
		return SO_SAVE_UNDEFINED;
	if (base == SO_REG_RBP && offset == (int16_t)offset &&
	    !(rule->cfa_kind == SO_CFA_REG && rule->cfa_reg == SO_REG_RBP)) {
		*field = (int16_t)offset;
		return SO_SAVE_RBP;
	}
	if (rule->cfa_kind == SO_CFA_REG && rule->cfa_reg == base) {
		*field = (int16_t)(offset - rule->cfa_off);
		return SO_SAVE_CFA;
	}
	return SO_SAVE_UNDEFINED;
}

/* What libdw says at an address, put as a rule. */
static struct so_unwind_rule expected_rule(Dwarf_Frame *frame)
{
	const struct so_unwind_rule unsupported = { .cfa_kind = SO_CFA_UNSUPPORTED };
	struct so_unwind_rule rule = { 0 };
	Dwarf_Op mem[3], *ops;
	bool signal;
	int64_t offset;
	uint8_t rbp, rbx;
	size_t n;

	assert_true(dwarf_frame_info(frame, NULL, NULL, &signal) >= 0);
	assert_int_equal(dwarf_frame_register(frame, 16, mem, &ops, &n), 0);
	if (!n && ops)
		return (struct so_unwind_rule){ .cfa_kind = SO_CFA_END };
	if (signal)
		return (struct so_unwind_rule){ .cfa_kind = SO_CFA_SIGNAL };
	if (!expect_cfa(frame, &rule) || !n)
		return unsupported;
	if (n == 1 && ops[0].atom == DW_OP_regx)
		rule.ra = SO_RA(SO_RA_REG, ops[0].number);
	else if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15)
		rule.ra = SO_RA(SO_RA_REG, ops[0].atom - DW_OP_reg0);
	else if (!at_cfa(ops, n, &offset) || offset != -8)
		return unsupported;
	assert_int_equal(dwarf_frame_register(frame, SO_REG_RSP, mem, &ops, &n), 0);
	if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_stack_value)
		return unsupported;
	rbp = expect_save(frame, SO_REG_RBP, &rule, &rule.rbp_off);
	rbx = expect_save(frame, SO_REG_RBX, &rule, &rule.rbx_off);
	rule.saves = SO_SAVES(rbp, rbx);
	return rule;
}

/* 0: *frame is there. 1: no entry covers the address. -1: libdw does not accept the program, or the CFA it makes. */
static int ask_libdw(const struct referee *ref, uint64_t pc, Dwarf_Frame **frame)
{
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_cfi_addrframe(ref->cfi, pc, frame))
		return dwarf_frame_cfa(*frame, &ops, &n) ? -1 : 0;
	return !strcmp(dwarf_errmsg(dwarf_errno()), "no matching address range") ? 1 : -1;
}

static bool libdw_has(const struct referee *ref, uint64_t pc)
{
	_cleanup_free_ Dwarf_Frame *frame = NULL;

	return !ask_libdw(ref, pc, &frame);
}

static void count_rule(struct referee *ref, const struct so_unwind_rule *rule)
{
	ref->covered++;
	ref->kinds[rule->cfa_kind]++;
	ref->reg_other += (rule->cfa_kind == SO_CFA_REG || rule->cfa_kind == SO_CFA_KEPT) &&
			  rule->cfa_reg != SO_REG_RSP && rule->cfa_reg != SO_REG_RBP;
	ref->saves[rule->saves & 15]++;
}

static void compare_at(struct referee *ref, uint64_t pc)
{
	const struct so_unwind_rule *got = unwind_table__lookup(ref->table, pc);
	_cleanup_free_ Dwarf_Frame *frame = NULL;
	struct so_unwind_rule want;
	int answer = ask_libdw(ref, pc, &frame);

	ref->compared++;
	if (answer < 0) { /* libgcc accepts a little more than libdw, and we as much as libgcc (cfi_program.h) */
		ref->unanswered++;
		return;
	}
	if (answer) {
		bool padding = false;

		for (unsigned back = 1; got && back < PADDING && !padding; back++)
			padding = libdw_has(ref, pc - back);
		if (got && !padding)
			fail_msg("%s: a rule at %#" PRIx64 " where libdw has none", ref->name, pc);
		return;
	}
	want = expected_rule(frame);
	if (!got)
		fail_msg("%s: no rule at %#" PRIx64, ref->name, pc);
	/* libdw presets rbp as preserved, and means to preset rbx but names rax: unset looks undefined. */
	if (want.saves >> 4 == SO_SAVE_UNDEFINED && got->saves >> 4 == SO_SAVE_SAME)
		want.saves = (uint8_t)(want.saves & 15);
	/* What the callees do to a register is in no unwind information. */
	if (got->cfa_kind == SO_CFA_KEPT && want.cfa_kind == SO_CFA_REG)
		want.cfa_kind = SO_CFA_KEPT;
	if (memcmp(got, &want, sizeof(want)))
		fail_msg("%s: at %#" PRIx64 " kind %u reg %u off %d off2 %d saves %#x %d %d ra %#x, libdw: kind %u reg "
			 "%u off %d off2 %d saves %#x %d %d ra %#x",
			 ref->name, pc, got->cfa_kind, got->cfa_reg, got->cfa_off, got->cfa_off2, got->saves,
			 got->rbp_off, got->rbx_off, got->ra, want.cfa_kind, want.cfa_reg, want.cfa_off, want.cfa_off2,
			 want.saves, want.rbp_off, want.rbx_off, want.ra);
	count_rule(ref, &want);
}

/* Every row of all but the largest files. */
static void compare_rows(struct referee *ref)
{
	const struct unwind_table *t = ref->table;
	uint32_t stride = 1 + t->n_rows / 400000, block = 0;

	for (uint32_t i = 0; i < t->n_rows; i += stride) {
		uint64_t pc;

		while (i >= t->index[block + 1])
			block++;
		pc = ((t->first_block + block) << SO_BLOCK_SHIFT) + SO_ROW_PC_LOW(t->rows[i]);
		compare_at(ref, pc);
		compare_at(ref, pc - 1);
	}
}

static void compare_random(struct referee *ref)
{
	uint64_t span = (uint64_t)ref->table->n_blocks << SO_BLOCK_SHIFT, state = 88172645463325252ull;

	for (unsigned i = 0; i < RANDOM_PCS; i++) {
		state ^= state << 13; /* xorshift64: the same addresses in every run */
		state ^= state >> 7;
		state ^= state << 17;
		compare_at(ref, (ref->table->first_block << SO_BLOCK_SHIFT) + state % span);
	}
}

static void compare_file(const char *path, struct referee *ref)
{
	_cleanup_(unwind_table) struct unwind_table *table = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(elf) Elf *elf = NULL;
	struct so_error err;

	if (fd < 0) {
		print_message("%s is not here\n", path);
		skip();
	}
	assert_int_equal(unwind_table__compile(fd, &table, &err), 0);
	assert_true(unwind_table__sound(table));
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	*ref = (struct referee){ .table = table,
				 .cfi = dwarf_getcfi_elf(elf),
				 .name = path,
				 .n_bad = table->n_bad_fdes,
				 .n_fdes = table->n_fdes };
	if (!table->n_rows) { /* no function described: libdw must agree (an empty section is one to it) */
		for (uint64_t pc = 0; ref->cfi && pc < 1 << 20; pc += 64)
			assert_false(libdw_has(ref, pc));
		dwarf_cfi_end(ref->cfi);
		return;
	}
	assert_non_null(ref->cfi);
	compare_rows(ref);
	compare_random(ref);
	dwarf_cfi_end(ref->cfi);
}

static void print_counts(const struct referee *ref)
{
	print_message("%s: %" PRIu64 " addresses; reg %" PRIu64 " (neither rsp nor rbp %" PRIu64 ") deref %" PRIu64
		      " plt %" PRIu64 " signal %" PRIu64 " end %" PRIu64 " unsupported %" PRIu64 "; rbp by rbp %" PRIu64
		      "; entries bad %u of %u; libdw refused %" PRIu64 "\n",
		      ref->name, ref->compared, ref->kinds[SO_CFA_REG], ref->reg_other, ref->kinds[SO_CFA_DEREF],
		      ref->kinds[SO_CFA_PLT], ref->kinds[SO_CFA_SIGNAL], ref->kinds[SO_CFA_END],
		      ref->kinds[SO_CFA_UNSUPPORTED], ref->saves[SO_SAVE_RBP], ref->n_bad, ref->n_fdes,
		      ref->unanswered);
}

#define REFEREE_TEST(name, path)                                    \
	static void test_##name(void **state)                       \
	{                                                           \
		struct referee ref;                                 \
		compare_file(path, &ref);                           \
		print_counts(&ref);                                 \
		assert_int_equal(ref.n_bad, 0);                     \
		assert_true(ref.unanswered <= ref.compared / 1000); \
		assert_true(ref.covered > ref.compared / 4);        \
		expect_in_##name(&ref);                             \
	}

/* A file named on the command line. */
static void test_named(void **state)
{
	struct referee ref;

	compare_file(*state, &ref);
	print_counts(&ref);
}

static void expect_in_libc(const struct referee *ref)
{
	assert_true(ref->kinds[SO_CFA_SIGNAL] > 0); /* __restore_rt */
	assert_true(ref->kinds[SO_CFA_END] > 0);    /* clone3 */
	assert_true(ref->kinds[SO_CFA_REG] > 0);
}

static void expect_in_libcrypto(const struct referee *ref)
{
	assert_true(ref->kinds[SO_CFA_DEREF] > 0);   /* hand-written vector code that keeps the old rsp on the stack */
	assert_true(ref->reg_other > 0);             /* the same code before that: CFA in rax, r9, r11 */
	assert_true(ref->kinds[SO_CFA_KEPT] > 0);    /* where it calls its own helpers */
	assert_true(ref->kinds[SO_CFA_INDEXED] > 0); /* Montgomery multiplication */
	assert_int_equal(ref->kinds[SO_CFA_UNSUPPORTED], 0);
}

static void expect_in_ld(const struct referee *ref)
{
	assert_true(ref->kinds[SO_CFA_REG] > 0);
}

static void expect_in_bash(const struct referee *ref)
{
	assert_true(ref->kinds[SO_CFA_END] > 0); /* _start */
	assert_true(ref->kinds[SO_CFA_PLT] > 0);
}

static void expect_in_libtorch(const struct referee *ref)
{
	assert_true(ref->kinds[SO_CFA_DEREF] > 0); /* realigned stacks */
	assert_true(ref->saves[SO_SAVE_RBP] > 0);
	assert_int_equal(ref->kinds[SO_CFA_UNSUPPORTED], 0);
}

#define expect_in_libstdcxx expect_in_ld
#define expect_in_python    expect_in_ld
#define expect_in_libm      expect_in_ld
#define expect_in_gdb       expect_in_bash

#define LIB "/lib/x86_64-linux-gnu/"
REFEREE_TEST(libc, LIB "libc.so.6")
REFEREE_TEST(ld, LIB "ld-linux-x86-64.so.2")
REFEREE_TEST(libm, LIB "libm.so.6")
REFEREE_TEST(libcrypto, "/usr" LIB "libcrypto.so.3")
REFEREE_TEST(libstdcxx, "/usr" LIB "libstdc++.so.6")
REFEREE_TEST(python, "/usr/bin/python3")
REFEREE_TEST(bash, "/bin/bash")
REFEREE_TEST(gdb, "/usr/bin/gdb")
REFEREE_TEST(libtorch, "/usr" LIB "libtorch_cpu.so.1.13")

/* Functions of the vdso must be covered; it has no file, so it goes through memory. */
static void test_vdso(void **state)
{
	const uint8_t *image = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_(unwind_table) struct unwind_table *table = NULL;
	_cleanup_(elf) Elf *elf = NULL;
	struct referee ref = { .name = "vdso" };
	const Elf64_Ehdr *ehdr = (const void *)image;
	struct so_error err;
	size_t size;

	if (!image)
		skip();
	size = ehdr->e_shoff + (size_t)ehdr->e_shnum * ehdr->e_shentsize;
	assert_int_equal(unwind_table__compile_memory(image, size, &table, &err), 0);
	assert_true(unwind_table__sound(table));
	assert_true(table->n_rows > 1);
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)image, size);
	ref.table = table;
	ref.cfi = dwarf_getcfi_elf(elf);
	assert_non_null(ref.cfi);
	compare_rows(&ref);
	dwarf_cfi_end(ref.cfi);
	assert_true(ref.covered > 0);
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int measure(const char *path)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct so_error err;
	struct rusage usage;
	double start = now_ms();

	if (fd < 0 || unwind_table__compile(fd, &t, &err)) {
		fprintf(stderr, "%s: %s\n", path, fd < 0 ? strerror(errno) : err.text);
		return 1;
	}
	start = now_ms() - start;
	getrusage(RUSAGE_SELF, &usage);
	printf("%s: %.1f ms of CPU, %u entries (%u bad), %u rows (%u unsupported), %u rules, %u blocks, %zu "
	       "bytes, "
	       "%.2f bytes "
	       "a row, peak %ld KiB\n",
	       path, start, t->n_fdes, t->n_bad_fdes, t->n_rows, t->n_unsupported_rows, t->n_rules, t->n_blocks,
	       table_bytes(t), t->n_rows ? (double)table_bytes(t) / t->n_rows : 0.0, usage.ru_maxrss);
	return 0;
}

static int run_named(int n, char **paths)
{
	_cleanup_free_ struct CMUnitTest *tests = calloc((size_t)n, sizeof(*tests));

	for (int i = 0; i < n; i++)
		tests[i] = (struct CMUnitTest){ paths[i], test_named, NULL, NULL, paths[i] };
	return _cmocka_run_group_tests("files", tests, (size_t)n, NULL, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc),      cmocka_unit_test(test_ld),        cmocka_unit_test(test_libm),
		cmocka_unit_test(test_libcrypto), cmocka_unit_test(test_libstdcxx), cmocka_unit_test(test_python),
		cmocka_unit_test(test_bash),      cmocka_unit_test(test_gdb),       cmocka_unit_test(test_libtorch),
		cmocka_unit_test(test_vdso),
	};
	int failed = 0;

	if (argc > 2 && !strcmp(argv[1], "--compare"))
		return run_named(argc - 2, argv + 2);
	for (int i = 1; i < argc; i++)
		failed |= measure(argv[i]);
	return argc > 1 ? failed : cmocka_run_group_tests(tests, NULL, NULL);
}
