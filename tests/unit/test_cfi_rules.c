// SPDX-License-Identifier: GPL-2.0-or-later
/* Which rule each kind of call-frame information becomes. */
#include "tests/unit/unwind_expect.h"

#include "daemon/unwind/cfi_rules.h"

#define PLT_CFA(threshold) 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, (threshold) + 0x30, 0x2a, 0x33, 0x24, 0x22
static void test_plt(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0, 0x40, 0x0e, 16, 0x46, 0x0e, 24, 0x4a, PLT_CFA(11));
	IMAGE_FDE(&im, 0x40, 0x40, PLT_CFA(10));
	IMAGE_FDE(&im, 0x80, 0x40, 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x34, 0x24, 0x22); /* lit4 */
	image__finish(&im);
	t = compile(&im);
	expect(t, 0, RSP(16));
	expect(t, 6, RSP(24));
	expect(t, 16,
	       (struct so_unwind_rule){ .cfa_kind = SO_CFA_PLT, .cfa_reg = SO_REG_RSP, .cfa_off = 8, .cfa_off2 = 11 });
	expect(t, 0x7f,
	       (struct so_unwind_rule){ .cfa_kind = SO_CFA_PLT, .cfa_reg = SO_REG_RSP, .cfa_off = 8, .cfa_off2 = 10 });
	expect(t, 0x80, UNSUPPORTED);
	assert_int_equal(t->n_unsupported_rows, 1);
}

/* glibc's trampoline: CFA = *(rsp+160), rip in memory at rsp+168. */
#define SIGNAL_CFA 0x0f, 4, 0x77, 0xa0, 0x01, 0x06
#define SIGNAL_RIP 0x10, 16, 3, 0x77, 0xa8, 0x01
static void test_signal(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	image__cie(&im, 1, "zRS", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1));
	IMAGE_FDE(&im, 0, 0x20, SIGNAL_CFA, SIGNAL_RIP, 0x10, 6, 3, 0x77, 0xf8, 0x00);
	IMAGE_FDE(&im, 0x20, 0x20, 0x0c, 7, 40, 0x11, 16, 0x70);               /* rip at CFA+128 = rsp+168 */
	IMAGE_FDE(&im, 0x40, 0x20, 0x0e, 24);                                  /* an ordinary rule */
	IMAGE_FDE(&im, 0x60, 0x20, SIGNAL_CFA, 0x10, 16, 3, 0x77, 0xb0, 0x01); /* rip somewhere else */
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x80, 0x20, SIGNAL_CFA, SIGNAL_RIP); /* not said to be a signal frame */
	image__finish(&im);
	t = compile(&im);
	expect(t, 0x1f, KIND(SO_CFA_SIGNAL));
	expect(t, 0x20, KIND(SO_CFA_SIGNAL));
	expect(t, 0x40, RSP(24));
	expect(t, 0x60, UNSUPPORTED);
	expect(t, 0x80, UNSUPPORTED);
}

static void test_realigned(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	/* lea 8(%rsp),%r10: CFA r10. Then rbp at *rbp, CFA = *(rbp-8), rbx at rbp-40. */
	IMAGE_FDE(&im, 0, 0x100, 0x45, 0x0c, 10, 0, 0x45, 0x10, 6, 2, 0x76, 0, 0x45, 0x0f, 3, 0x76, 0x78, 6, 0x45, 0x10,
		  3, 2, 0x76, 0x58, 0x60, 0x0c, 10, 0, 0xc6, 0xc3, 0x45, 0x0c, 7, 8);
	image__finish(&im);
	t = compile(&im);
	expect(t, 0, RSP(8));
	expect(t, 5, REG(SO_REG_R10, 0));
	expect(t, 10,
	       (struct so_unwind_rule){
		       .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_R10, .saves = SO_SAVES(SO_SAVE_RBP, SO_SAVE_SAME) });
	expect(t, 15,
	       (struct so_unwind_rule){ .cfa_kind = SO_CFA_DEREF,
					.cfa_reg = SO_REG_RBP,
					.cfa_off = -8,
					.saves = SO_SAVES(SO_SAVE_RBP, SO_SAVE_SAME) });
	expect(t, 20,
	       (struct so_unwind_rule){ .cfa_kind = SO_CFA_DEREF,
					.cfa_reg = SO_REG_RBP,
					.cfa_off = -8,
					.rbx_off = -40,
					.saves = SO_SAVES(SO_SAVE_RBP, SO_SAVE_RBP) });
	expect(t, 52, REG(SO_REG_R10, 0));
	expect(t, 57, RSP(8));
}

/* Expressions in other words for the same thing, and those that only look like one that a rule can hold. */
static void test_expressions(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;
	const struct so_unwind_rule deref = {
		.cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RSP, .cfa_off = 24, .cfa_off2 = 8
	};
	struct so_unwind_rule lost = deref, saved = RSP(32), kept = deref;

	lost.saves = SO_SAVES(SO_SAVE_SAME, SO_SAVE_UNDEFINED);
	saved.saves = SO_SAVES(SO_SAVE_SAME, SO_SAVE_CFA);
	saved.rbx_off = -16;
	kept.saves = SO_SAVES(SO_SAVE_CFA, SO_SAVE_SAME);
	kept.rbp_off = -16;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x00, 0x10, 0x0f, 5, 0x77, 24, 6, 0x23, 8);
	IMAGE_FDE(&im, 0x10, 0x10, 0x0f, 5, 0x77, 24, 6, 0x38, 0x22);          /* lit8; plus */
	IMAGE_FDE(&im, 0x20, 0x10, 0x0f, 7, 0x38, 0x92, 7, 24, 6, 0x22, 0x96); /* bregx, the sum turned round */
	IMAGE_FDE(&im, 0x30, 0x10, 0x0f, 6, 0x77, 24, 6, 0x09, 0xf8, 0x1c);    /* const1s -8; minus */
	IMAGE_FDE(&im, 0x40, 0x10, 0x0f, 5, 0x77, 24, 6, 0x23, 8, 0x10, 3, 2, 0x77, 16); /* rbx at rsp+16: lost */
	IMAGE_FDE(&im, 0x50, 0x10, 0x0e, 32, 0x10, 3, 2, 0x77, 16); /* the same, CFA known from rsp */
	IMAGE_FDE(&im, 0x60, 0x10, 0x0f, 5, 0x77, 24, 6, 0x23, 8, 0x10, 6, 5, 0x77, 24, 6, 0x38, 0x1c, 0x10, 6, 2, 0x40,
		  0x1c);                                     /* rbp at CFA - 16, by the stacked CFA */
	IMAGE_FDE(&im, 0x70, 0x10, 0x0f, 2, 0x77, 24);       /* no dereference: a register and an offset */
	IMAGE_FDE(&im, 0x80, 0x10, 0x0f, 4, 0x77, 24, 6, 6); /* twice dereferenced */
	IMAGE_FDE(&im, 0x90, 0x10, 0x0f, 3, 0x77, 24, 0x22); /* plus on one operand */
	IMAGE_FDE(&im, 0xa0, 0x10, 0x0f, 0);                 /* empty */
	IMAGE_FDE(&im, 0xb0, 0x10, 0x0f, 3, 0x80, 0, 6);     /* of rip */
	IMAGE_FDE(&im, 0xc0, 0x10, 0x0f, 7, 0x77, 0xff, 0xff, 0xff, 0xff, 0x1f, 6); /* beyond 32 bits */
	image__finish(&im);
	t = compile(&im);
	for (unsigned offset = 0; offset < 0x40; offset += 0x10)
		expect(t, offset, deref);
	expect(t, 0x40, lost);
	expect(t, 0x50, saved);
	expect(t, 0x60, kept);
	expect(t, 0x70, RSP(24));
	for (unsigned offset = 0x80; offset < 0xd0; offset += 0x10)
		expect(t, offset, UNSUPPORTED);
	assert_int_equal(t->n_bad_fdes, 0);
}

/* The CFA in an array on the stack: *(rsp + 8 * r9 + 8) + 8, as OpenSSL's Montgomery multiplication has it. */
static void test_indexed(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	const struct so_unwind_rule indexed = {
		.cfa_kind = SO_CFA_INDEXED, .cfa_reg = SO_CFA_REGS(SO_REG_RSP, SO_REG_R9), .cfa_off = 8, .cfa_off2 = 8
	};
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x00, 0x10, 0x0f, 10, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 6, 0x23, 8);
	IMAGE_FDE(&im, 0x10, 0x10, 0x0f, 10, 0x77, 8, 0x79, 0, 0x33, 0x24, 0x22, 6, 0x23, 8); /* lit3; shl */
	IMAGE_FDE(&im, 0x20, 0x10, 0x0f, 10, 0x77, 8, 0x79, 0, 0x34, 0x1e, 0x22, 6, 0x23, 8); /* times 4 */
	IMAGE_FDE(&im, 0x30, 0x10, 0x0f, 10, 0x77, 8, 0x79, 1, 0x38, 0x1e, 0x22, 6, 0x23, 8); /* 8 * (r9 + 1) */
	IMAGE_FDE(&im, 0x40, 0x10, 0x0f, 10, 0x77, 8, 0x70, 0, 0x38, 0x1e, 0x22, 6, 0x23, 8); /* by rax */
	IMAGE_FDE(&im, 0x50, 0x10, 0x0f, 7, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22);              /* no memory */
	IMAGE_FDE(&im, 0x60, 0x10, 0x0f, 4, 0x79, 0, 0x38, 0x1e);                             /* no base */
	image__finish(&im);
	t = compile(&im);
	expect(t, 0x00, indexed);
	expect(t, 0x10, indexed);
	for (unsigned offset = 0x20; offset < 0x70; offset += 0x10)
		expect(t, offset, UNSUPPORTED);
}

/* Back from an expression by naming a register alone: the offset from before holds. */
static void test_after_expression(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0, 0x40, 0x0e, 56, 0x44, 0x0f, 3, 0x77, 8, 6, 0x44, 0x0d, 7, 0x42, 0x0e, 48);
	IMAGE_FDE(&im, 0x40, 0x40, 0x0f, 3, 0x77, 8, 6, 0x44, 0x0e, 48, 0x44, 0x0d,
		  6); /* an offset alone does not end it */
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_bad_fdes, 0);
	expect(t, 0, RSP(56));
	expect(t, 4, (struct so_unwind_rule){ .cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RSP, .cfa_off = 8 });
	expect(t, 8, RSP(56));
	expect(t, 10, RSP(48));
	expect(t, 0x44, (struct so_unwind_rule){ .cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RSP, .cfa_off = 8 });
	expect(t, 0x48, REG(SO_REG_RBP, 48));
}

static void test_return_address(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct so_unwind_rule vfork = RSP(0);
	struct image im;

	vfork.ra = SO_RA(SO_RA_REG, SO_REG_RDI);
	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x00, 0x10, 0x41, 0x0e, 0, 0x09, 16, 5, 0x48, 0x0e, 8, 0x0a, 0xd0, 0x0b, 0x90, 1);
	IMAGE_FDE(&im, 0x10, 0x10, 0x07, 16);                 /* undefined: the outermost frame */
	IMAGE_FDE(&im, 0x20, 0x10, 0x08, 16);                 /* same value */
	IMAGE_FDE(&im, 0x30, 0x10, 0x90, 2);                  /* at CFA-16 */
	IMAGE_FDE(&im, 0x40, 0x10, 0x14, 16, 1);              /* is CFA-8 */
	IMAGE_FDE(&im, 0x50, 0x10, 0x10, 16, 2, 0x77, 0);     /* at rsp, which is CFA-8 in other words */
	IMAGE_FDE(&im, 0x60, 0x10, 0x09, 16, 20);             /* in a vector register */
	IMAGE_FDE(&im, 0x70, 0x10, 0x16, 16, 2, 0x77, 0);     /* a value that is computed */
	image__cie(&im, 1, "zR", 16, IMAGE_CODE(0x0c, 7, 8)); /* never mentioned */
	IMAGE_FDE(&im, 0x80, 0x10, 0x00);
	image__cie(&im, 1, "zR", 16, IMAGE_CODE(0x90, 1)); /* no CFA */
	IMAGE_FDE(&im, 0x90, 0x10, 0x00);
	IMAGE_FDE(&im, 0xa0, 0x10, 0x0c, 17, 8); /* CFA from a vector register */
	image__finish(&im);
	t = compile(&im);
	expect(t, 0, RSP(8));
	expect(t, 1, vfork);
	expect(t, 9, RSP(8));
	expect(t, 0x10, END);
	expect(t, 0x20, UNSUPPORTED);
	expect(t, 0x30, UNSUPPORTED);
	expect(t, 0x40, UNSUPPORTED);
	expect(t, 0x50, RSP(8));
	for (unsigned offset = 0x60; offset < 0xb0; offset += 0x10)
		expect(t, offset, UNSUPPORTED);
	assert_int_equal(t->n_bad_fdes, 0);
}

static struct so_unwind_rule saving(uint8_t rbp, int16_t rbp_off, uint8_t rbx, int16_t rbx_off)
{
	return (struct so_unwind_rule){ .cfa_kind = SO_CFA_REG,
					.cfa_reg = SO_REG_RSP,
					.cfa_off = 8,
					.saves = SO_SAVES(rbp, rbx),
					.rbp_off = rbp_off,
					.rbx_off = rbx_off };
}

static void test_saved_registers(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x00, 0x10, 0x86, 2, 0x83, 3);                      /* offset */
	IMAGE_FDE(&im, 0x10, 0x10, 0x05, 6, 4, 0x11, 3, 0x7f);             /* extended; signed: above the CFA */
	IMAGE_FDE(&im, 0x20, 0x10, 0x07, 6, 0x08, 3);                      /* undefined; same value */
	IMAGE_FDE(&im, 0x30, 0x10, 0x09, 6, 6, 0x09, 3, 12);               /* in itself; in another register */
	IMAGE_FDE(&im, 0x40, 0x10, 0x14, 6, 2, 0x15, 3, 2);                /* values of CFA plus offset */
	IMAGE_FDE(&im, 0x50, 0x10, 0x86, 0x81, 0x20, 0x83, 0x80, 0x20);    /* -32776 does not fit, -32768 does */
	IMAGE_FDE(&im, 0x60, 0x10, 0x2f, 6, 2, 0x16, 3, 2, 0x77, 0);       /* negated: CFA+16; computed */
	IMAGE_FDE(&im, 0x70, 0x10, 0x10, 6, 2, 0x73, 8, 0x10, 3, 1, 0x23); /* at rbx+8; a broken expression */
	IMAGE_FDE(&im, 0x80, 0x10, 0x86, 2, 0x8c, 3, 0xcc, 0x06, 6, 0x91, 9, 0x2e, 16); /* others do not matter */
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_bad_fdes, 0);
	expect(t, 0x00, saving(SO_SAVE_CFA, -16, SO_SAVE_CFA, -24));
	expect(t, 0x10, saving(SO_SAVE_CFA, -32, SO_SAVE_CFA, 8));
	expect(t, 0x20, saving(SO_SAVE_UNDEFINED, 0, SO_SAVE_SAME, 0));
	expect(t, 0x30, saving(SO_SAVE_SAME, 0, SO_SAVE_UNDEFINED, 0));
	expect(t, 0x40, saving(SO_SAVE_UNDEFINED, 0, SO_SAVE_UNDEFINED, 0));
	expect(t, 0x50, saving(SO_SAVE_UNDEFINED, 0, SO_SAVE_CFA, -32768));
	expect(t, 0x60, saving(SO_SAVE_CFA, 16, SO_SAVE_UNDEFINED, 0));
	expect(t, 0x70, saving(SO_SAVE_UNDEFINED, 0, SO_SAVE_UNDEFINED, 0));
	expect(t, 0x80, saving(SO_SAVE_SAME, 0, SO_SAVE_SAME, 0));
}

static void test_remember_restore(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct so_unwind_rule body = RSP(32);
	struct image im;

	body.saves = SO_SAVES(SO_SAVE_SAME, SO_SAVE_CFA);
	body.rbx_off = -16;
	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0, 0x40, 0x0e, 32, 0x83, 2, 0x44, 0x0a, 0x0a, 0xc3, 0x0c, 6, 16, 0x44, 0x0b, 0x44, 0x0e, 8, 0xc3,
		  0x44, 0x0b);
	image__finish(&im);
	t = compile(&im);
	expect(t, 0, body);
	expect(t, 4, REG(SO_REG_RBP, 16));
	expect(t, 8, body);
	expect(t, 12, RSP(8));
	expect(t, 16, body);
}

static void test_full_rule_set(void **state)
{
	_cleanup_(cfi_rules) struct cfi_rules set;
	struct so_unwind_rule rule = { .cfa_kind = SO_CFA_REG };
	uint32_t number = 0, rows[] = { SO_ROW(0, SO_RULE_UNAVAILABLE), SO_ROW(9, SO_RULE_NONE) }, index[] = { 0, 2 };
	struct unwind_table t = { .n_blocks = 1, .n_rows = 2, .index = index, .rows = rows };

	assert_int_equal(cfi_rules__init(&set), 0);
	for (uint32_t i = SO_FIRST_RULE; i < SO_MAX_RULES; i++) {
		rule.cfa_off = (int32_t)i;
		assert_int_equal(cfi_rules__number(&set, &rule, &number), 0);
		assert_int_equal(number, i);
	}
	rule.cfa_off = 1;
	assert_int_equal(cfi_rules__number(&set, &rule, &number), 0);
	assert_int_equal(number, SO_RULE_UNAVAILABLE);
	rule.cfa_off = 77777;
	assert_int_equal(cfi_rules__number(&set, &rule, &number), 0);
	assert_int_equal(number, 77777);

	assert_true(unwind_table__sound(&t));
	assert_int_equal(unwind_table__lookup(&t, 8)->cfa_kind, SO_CFA_UNSUPPORTED);
	assert_null(unwind_table__lookup(&t, 9));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_realigned),
		cmocka_unit_test(test_indexed),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_after_expression),
		cmocka_unit_test(test_return_address),
		cmocka_unit_test(test_saved_registers),
		cmocka_unit_test(test_remember_restore),
		cmocka_unit_test(test_full_rule_set),
	};

	take_corpus_option(argc, argv, "rules");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
