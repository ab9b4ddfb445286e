// SPDX-License-Identifier: GPL-2.0-or-later
/* Which frames can be left by a register that calls need not keep: hand-assembled functions, and libcrypto's own. */
#include "tests/unit/unwind_expect.h"

#include <fcntl.h>

#include "stakeout/cleanup.h"

/* The function that keeps its caller's stack pointer in a register, its row behind the prologue, and its helpers. */
#define OUTER   0x400
#define BODY    (OUTER + 4)
#define INNER   0x500
#define INNER_2 0x540

/* lea (%rsp), %rax: the unwind information of OUTER says so from BODY on. */
#define RAX_FROM_BODY 0x44, 0x0c, 0, 8

static void put_code(struct image *im, size_t at, const uint8_t *code, size_t n)
{
	memcpy(im->bytes + at, code, n);
}

#define CODE(im, at, ...)          put_code(im, at, IMAGE_CODE(__VA_ARGS__))
#define DISTANCE_BYTE(from, to, n) (uint8_t)(((to) - (from)-5) >> 8 * (n))
#define CALL(from, to)                                                                            \
	0xe8, DISTANCE_BYTE(from, to, 0), DISTANCE_BYTE(from, to, 1), DISTANCE_BYTE(from, to, 2), \
		DISTANCE_BYTE(from, to, 3)
#define RET 0xc3
#define NOP 0x90

/* OUTER's body is a call of INNER and a return. */
static void begin(struct image *im)
{
	image__init(im);
	IMAGE_CIE(im);
	IMAGE_FDE(im, OUTER, 0x40, RAX_FROM_BODY);
	memset(im->bytes + OUTER, NOP, 0x200);
	CODE(im, OUTER, 0x48, 0x8d, 0x04, 0x24, CALL(BODY, INNER), RET);
}

static void expect_kind(struct image *im, enum so_cfa_kind kind)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;

	image__finish(im);
	t = compile(im);
	expect(t, OUTER, RSP(8));
	expect(t, BODY + 4, (struct so_unwind_rule){ .cfa_kind = (uint8_t)kind, .cfa_reg = SO_REG_RAX, .cfa_off = 8 });
	expect(t, OUTER + 0x3f,
	       (struct so_unwind_rule){ .cfa_kind = (uint8_t)kind, .cfa_reg = SO_REG_RAX, .cfa_off = 8 });
}

static void test_kept(void **state)
{
	struct image im;

	begin(&im); /* 1: mov %rdx, %rcx; dec %rdx; jne 1; ret */
	CODE(&im, INNER, 0x48, 0x89, 0xd1, 0x48, 0xff, 0xca, 0x75, 0xf8, RET);
	expect_kind(&im, SO_CFA_KEPT);
}

static void test_kept_by_all(void **state)
{
	struct image im;

	begin(&im); /* call the next; ret; it calls itself and the first again */
	CODE(&im, INNER, CALL(INNER, INNER_2), RET);
	CODE(&im, INNER_2, 0x75, 0x05, CALL(INNER_2 + 2, INNER_2), RET);
	expect_kind(&im, SO_CFA_KEPT);
}

static void test_written(void **state)
{
	static const struct {
		uint8_t code[8];
		size_t n;
	} writes[] = {
		{ { 0x31, 0xc0 }, 2 },                   /* xor %eax, %eax */
		{ { 0x48, 0x89, 0xc8 }, 3 },             /* mov %rcx, %rax */
		{ { 0x48, 0x8b, 0x07 }, 3 },             /* mov (%rdi), %rax */
		{ { 0x50, 0x58 }, 2 },                   /* push %rax; pop %rax */
		{ { 0xb0, 0x01 }, 2 },                   /* mov $1, %al */
		{ { 0xb4, 0x01 }, 2 },                   /* mov $1, %ah */
		{ { 0x48, 0xf7, 0xe1 }, 3 },             /* mul %rcx */
		{ { 0x48, 0x91 }, 2 },                   /* xchg %rcx, %rax */
		{ { 0x0f, 0xa2 }, 2 },                   /* cpuid */
		{ { 0xac }, 1 },                         /* lodsb */
		{ { 0x0f, 0xb0, 0x0f }, 3 },             /* cmpxchg %cl, (%rdi) */
		{ { 0xd7 }, 1 },                         /* xlat */
		{ { 0xc5, 0xf9, 0xd7, 0xc1 }, 4 },       /* vpmovmskb %xmm1, %eax */
		{ { 0xc4, 0xe1, 0xf9, 0x7e, 0xc0 }, 5 }, /* vmovq %xmm0, %rax */
		{ { 0x0f, 0x05 }, 2 },                   /* syscall */
	};

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct image im;

		begin(&im);
		put_code(&im, INNER + 1, writes[i].code, writes[i].n);
		CODE(&im, INNER + 16, RET);
		expect_kind(&im, SO_CFA_REG);
	}
}

/* Where it cannot be said what is called. */
static void test_not_followed(void **state)
{
	struct image im;

	begin(&im); /* call *%rcx */
	CODE(&im, INNER, 0xff, 0xd1, RET);
	expect_kind(&im, SO_CFA_REG);
	begin(&im); /* jmp *%rcx */
	CODE(&im, INNER, 0xff, 0xe1);
	expect_kind(&im, SO_CFA_REG);
	begin(&im); /* jmp out of the file */
	CODE(&im, INNER, 0xe9, 0, 0, 0, 0x10);
	expect_kind(&im, SO_CFA_REG);
	begin(&im); /* no instruction */
	CODE(&im, INNER, 0x06);
	expect_kind(&im, SO_CFA_REG);
	begin(&im); /* a second call, of another function, from the same row */
	CODE(&im, INNER, RET);
	CODE(&im, BODY + 5, CALL(BODY + 5, INNER_2), RET);
	CODE(&im, INNER_2, 0x31, 0xc0, RET);
	expect_kind(&im, SO_CFA_REG);
	begin(&im); /* and one through a register */
	CODE(&im, INNER, RET);
	CODE(&im, BODY + 5, 0xff, 0xd1, RET);
	expect_kind(&im, SO_CFA_REG);
}

/* A register that a call keeps by convention, and rows without a call, are left as they are. */
static void test_others(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, OUTER, 0x40, 0x44, 0x0c, 6, 16, 0x49, 0x0c, 0, 8);
	memset(im.bytes + OUTER, NOP, 0x200);
	CODE(&im, BODY, CALL(BODY, INNER));
	CODE(&im, INNER, RET);
	image__finish(&im);
	t = compile(&im);
	expect(t, BODY, REG(SO_REG_RBP, 16));
	expect(t, BODY + 9, REG(SO_REG_RAX, 8));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),         cmocka_unit_test(test_kept_by_all), cmocka_unit_test(test_written),
		cmocka_unit_test(test_not_followed), cmocka_unit_test(test_others),
	};

	take_corpus_option(argc, argv, "kept");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
