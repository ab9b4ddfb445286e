// SPDX-License-Identifier: GPL-2.0-or-later
/* From a frame to its caller: each kind of rule, frame pointers, broken stacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/unwind_world.h"

static void test_rsp(void **state)
{
	TEXT(END, RSP(8), RSP(24), RSP(200));
	put(0, RET(2));
	put(24, RET(3));
	put(8 + 24 + 192, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));
	assert_int_equal(w->u.flags, 0);
	assert_int_equal(w->u.no_file, 0);
	assert_int_equal(user_space.reads, 1);
}

/* The outermost function itself, before its first call. */
static void test_only_end(void **state)
{
	TEXT(END);
	unwind(AT(0), 0);
	EXPECT(NONE, LEAF(0));
	assert_int_equal(user_space.reads, 0);
}

/* A call that ends a function returns to what follows: that one's rule must not be used. */
static void test_noreturn_call(void **state)
{
	TEXT(END, RSP(8), RSP(16), KIND(UNSUPPORTED));
	put(0, BIAS + TEXT_VADDR + 3 * FUNCTION_BYTES);
	put(16, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), SO_FRAME(FILE_NUMBER, TEXT_VADDR + 3 * FUNCTION_BYTES - 1), CALLER(0));
}

static void test_rbp(void **state)
{
	TEXT(END, { CFA(RBP, 16), RBP_AT(-16) }, RSP(16), { CFA(RBP, 16), RBP_AT(-16) });
	set_reg(SO_REG_RBP, STACK + 64);
	put(64, STACK + 512); /* the outer function's rbp, which the one between leaves alone */
	put(72, RET(2));
	put(88, RET(3));
	put(512, 0);
	put(520, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));
}

static void test_rbx_base(void **state)
{
	TEXT(END, { CFA(RSP, 32), .rbx_off = -24, .saves = SO_SAVES(SO_SAVE_SAME, SO_SAVE_CFA) }, RSP(8),
	     { CFA(RBX, 48) });
	set_reg(SO_REG_RBX, 1);
	put(8, STACK + 256);
	put(24, RET(2));
	put(32, RET(3));
	put(256 + 40, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));
}

/* Any register serves in the innermost frame; in a caller only those that are followed do. */
static void test_other_registers(void **state)
{
	static const enum so_reg regs[] = { SO_REG_RAX, SO_REG_RCX, SO_REG_RDX, SO_REG_RSI, SO_REG_RDI,
					    SO_REG_R8,  SO_REG_R9,  SO_REG_R10, SO_REG_R11, SO_REG_R12,
					    SO_REG_R13, SO_REG_R14, SO_REG_R15 };
	struct so_unwind_rule rules[14] = { END };

	for (unsigned i = 0; i < 13; i++)
		rules[i + 1] = (struct so_unwind_rule){ .cfa_kind = SO_CFA_REG, .cfa_reg = regs[i], .cfa_off = 24 };
	add_text(rules, 14);
	for (unsigned i = 0; i < 13; i++) {
		set_reg(regs[i], STACK + 64 * i);
		put(64 * i + 16, RET(0));
		unwind(AT(i + 1), 0);
		EXPECT(NONE, LEAF(i + 1), CALLER(0));
		put(64 * i + 16, RET(i + 1));
		unwind(AT(i + 1), 0);
		EXPECT(REG_UNKNOWN, LEAF(i + 1), CALLER(i + 1));
		set_reg(regs[i], 0);
	}
}

/* A register that nothing below writes is that of the innermost frame, or of the one that a signal interrupted. */
static void test_kept_register(void **state)
{
	TEXT(END, RSP(8), RSP(16), { .cfa_kind = SO_CFA_KEPT, .cfa_reg = SO_REG_RAX, .cfa_off = 8 }, KIND(SIGNAL));
	set_reg(SO_REG_RAX, STACK + 512);
	put(0, RET(2));
	put(16, RET(3));
	put(512, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));

	/* On the way through a signal frame it is another. */
	put(0, RET(4));
	put(8 + UW_SIGCONTEXT_OFFSET + UW_SC_RIP * 8, AT(1));
	put(8 + UW_SIGCONTEXT_OFFSET + UW_SC_RSP * 8, STACK + 4096);
	put(8 + UW_SIGCONTEXT_OFFSET + UW_SC_RAX * 8, STACK + 8000);
	put(4096, RET(3));
	put(8000, RET(0));
	set_reg(SO_REG_RAX, 0);
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), TRAMPOLINE(4), LEAF(1), CALLER(3), CALLER(0));
}

static void test_indexed(void **state)
{
	TEXT(END, { .cfa_kind = SO_CFA_INDEXED,
		    .cfa_reg = SO_CFA_REGS(SO_REG_RSP, SO_REG_R9),
		    .cfa_off = 8,
		    .cfa_off2 = 16 });
	set_reg(SO_REG_R9, 9);
	put(8 + 72, STACK + 4000);
	put(4008, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(0));
	put(4008, RET(1));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(1));
}

/* As asmcgocall leaves it: the goroutine at rsp + 48, below the end of whose stack its own frame is. */
static void test_go_cgo(void **state)
{
	TEXT(END, RSP(8), { .cfa_kind = SO_CFA_GO_CGO, .cfa_off = 48, .cfa_off2 = 40, .rbp_off = 8 }, RSP(24));
	put(4096, RET(2));
	put(4104 + 48, STACK + 8192);
	put(4104 + 40, 800);
	put(8192 + 8, STACK + 2048);
	put(2048 - 800, RET(3)); /* below the first stack */
	put(2048 - 800 + 24, RET(0));
	unwind(AT(1), 4096);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));
	/* No goroutine: the stack pointer itself. */
	put(4104 + 48, 0);
	put(4104 + 40, STACK + 2048 - 800);
	unwind(AT(1), 4096);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));
	put(4104 + 48, 0x1234);
	unwind(AT(1), 4096);
	EXPECT(STACK_READ, LEAF(1), CALLER(2));
}

#define GO_STACK(add)                                                                      \
	{                                                                                  \
		.cfa_kind = SO_CFA_GO_STACK, .cfa_off = -8, .rbp_off = 48, .rbx_off = 192, \
		.cfa_off2 = SO_GO_STACK(56, add)                                           \
	}

/* As systemstack and morestack leave it: by the thread's g, its m, and what that runs. */
static void test_go_stack(void **state)
{
	TEXT(END, RSP(8), GO_STACK(8), GO_STACK(0), { .cfa_kind = SO_CFA_GO_FRAME }, { CFA(RBP, 16) });
	user_space.fs_base = STACK + 6000;
	put(6000 - 8, STACK + 8192);
	put(8192 + 48, STACK + 8504);
	put(8504 + 192, STACK + 9000);
	put(9000 + 56, STACK + 1600);
	put(1600, RET(5)); /* which needs the rbp that nothing has changed */
	set_reg(SO_REG_RBP, STACK + 1696);
	put(1696 + 8, RET(0));
	put(4096, RET(2));
	unwind(AT(1), 4096);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(5), CALLER(0));
	/* Its return address is with its stack pointer. */
	put(4096, RET(3));
	put(1600, 0x1234);
	put(9000 + 64, RET(5));
	unwind(AT(1), 4096);
	EXPECT(NONE, LEAF(1), CALLER(3), CALLER(5), CALLER(0));
	put(4096, RET(4));
	unwind(AT(1), 4096);
	EXPECT(NONE, LEAF(1), CALLER(4), CALLER(0));
	user_space.fs_base = 0;
	put(4096, RET(2));
	unwind(AT(1), 4096);
	EXPECT(STACK_READ, LEAF(1), CALLER(2));
}

/* A stack-realigned function: the CFA lies at rbp-8, rbp itself at rbp, rbx at rbp-16. */
#define REALIGNED                                                                               \
	{                                                                                       \
		.cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RBP, .cfa_off = -8, .rbx_off = -16, \
		.saves = SO_SAVES(SO_SAVE_RBP, SO_SAVE_RBP)                                     \
	}

static void test_realigned(void **state)
{
	TEXT(END, RSP(8), REALIGNED, { CFA(RBX, 16) }, { CFA(RBP, 16) });
	put(0, RET(2));
	set_reg(SO_REG_RBP, STACK + 128);
	put(128 - 8, STACK + 200);
	put(128 - 16, STACK + 300);
	put(128, STACK + 400);
	put(200 - 8, RET(3));
	put(300 + 8 - 4, 0); /* CFA = 316: not a multiple of 8, the return address at 308 neither */
	put(308, RET(4));
	put(408, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(4), CALLER(0));
}

static void test_deref_offset(void **state)
{
	TEXT(END, { .cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RSP, .cfa_off = 152, .cfa_off2 = 8 }, RSP(8));
	put(152, STACK + 4000);
	put(4000, RET(2));
	put(4008, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0));
}

/* Below rsp, as libcrypto's vector code has it in places; the window begins there then. */
static void test_deref_red_zone(void **state)
{
	TEXT(END, { .cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RSP, .cfa_off = -8, .cfa_off2 = 8 });
	put(8192 - 8, STACK + 9000);
	put(9000, RET(0));
	unwind(AT(1), 8192);
	EXPECT(NONE, LEAF(1), CALLER(0));
}

static void test_deref_unreadable(void **state)
{
	TEXT(END, { .cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_RBP, .cfa_off = -8 });
	set_reg(SO_REG_RBP, 0x1000);
	unwind(AT(1), 0);
	EXPECT(STACK_READ, LEAF(1));
	set_reg(SO_REG_RBP, STACK + 64);
	put(56, 0x10); /* below the stack pointer */
	unwind(AT(1), 0);
	EXPECT(STACK_ORDER, LEAF(1));
	put(56, 0xffff800000000000ull);
	unwind(AT(1), 0);
	EXPECT(STACK_READ, LEAF(1));
}

/* An entry of a procedure linkage table: from byte 10 or 11 of each 16 on, the index has been pushed. */
static void test_plt(void **state)
{
	TEXT(END, { .cfa_kind = SO_CFA_PLT, .cfa_reg = SO_REG_RSP, .cfa_off = 8, .cfa_off2 = 11 },
	     { .cfa_kind = SO_CFA_PLT, .cfa_reg = SO_REG_RSP, .cfa_off = 8, .cfa_off2 = 10 }, RSP(8), RSP(16));
	put(0, RET(3));
	put(8, RET(4));
	put(24, RET(0));
	for (unsigned f = 1; f <= 2; f++) {
		for (unsigned i = 0; i < 32; i++) {
			uint64_t pc = BIAS + TEXT_VADDR + f * FUNCTION_BYTES + i;

			unwind(pc, 0);
			if (i % 16 >= (f == 1 ? 11 : 10))
				EXPECT(NONE, SO_FRAME(FILE_NUMBER, pc - BIAS), CALLER(4), CALLER(0));
			else
				EXPECT(NONE, SO_FRAME(FILE_NUMBER, pc - BIAS), CALLER(3), CALLER(4), CALLER(0));
		}
	}
}

/* What a signal's delivery leaves on the stack, with rsp where the handler's return puts it. */
static void put_sigcontext(uint32_t sp_off, uint64_t rip, uint64_t rsp, uint64_t rbp, uint64_t rbx, uint64_t r10)
{
	for (unsigned i = 0; i < UW_SC_WORDS; i++)
		put(sp_off + UW_SIGCONTEXT_OFFSET + i * 8, 0x5a5a5a5a00000000ull + i);
	put(sp_off + UW_SIGCONTEXT_OFFSET + UW_SC_R10 * 8, r10);
	put(sp_off + UW_SIGCONTEXT_OFFSET + UW_SC_RBP * 8, rbp);
	put(sp_off + UW_SIGCONTEXT_OFFSET + UW_SC_RBX * 8, rbx);
	put(sp_off + UW_SIGCONTEXT_OFFSET + UW_SC_RSP * 8, rsp);
	put(sp_off + UW_SIGCONTEXT_OFFSET + UW_SC_RIP * 8, rip);
}

/* The interrupted function is looked up at the interrupted instruction, here its first one, and all registers count. */
static void test_signal(void **state)
{
	uint64_t first = BIAS + TEXT_VADDR + 3 * FUNCTION_BYTES;

	TEXT(END, RSP(16), KIND(SIGNAL), { CFA(R10, 8) }, { CFA(RBP, 16) }, { CFA(RBX, 16) });
	put(8, RET(2));
	put_sigcontext(16, first, STACK + 2000, STACK + 2100, STACK + 2200, STACK + 2048);
	put(2048, RET(4));
	put(2100 + 8, 0);
	put(2108, RET(5));
	put(2208, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), TRAMPOLINE(2), SO_FRAME(FILE_NUMBER, first - BIAS), CALLER(4), CALLER(5), CALLER(0));
}

/* The handler ran on another stack, above the interrupted one. */
static void test_alternate_stack(void **state)
{
	TEXT(END, RSP(16), KIND(SIGNAL), RSP(32));
	put(40008, RET(2));
	put_sigcontext(40016, AT(3), STACK + 64, 0, 0, 0);
	put(64 + 24, RET(0));
	unwind(AT(1), 40000);
	EXPECT(NONE, LEAF(1), TRAMPOLINE(2), LEAF(3), CALLER(0));
}

/* The saved registers go on in a page that cannot be read. */
static void test_signal_unreadable(void **state)
{
	TEXT(END, RSP(8), KIND(SIGNAL));
	w->high = STACK + 4096;
	put(4096 - 128, RET(2));
	unwind(AT(1), 4096 - 128);
	EXPECT(STACK_READ, LEAF(1), TRAMPOLINE(2));
}

static void run_sigreturn(uint64_t code)
{
	w->code[0] = code;
	w->code_at = RET(2);
	unwind(AT(1), 0);
}

/* The trampolines that are known by their bytes, in code without rules. */
static void test_sigreturn_bytes(void **state)
{
	TEXT(END, RSP(8), NO_RULE, RSP(24));
	put(0, RET(2));
	put_sigcontext(8, AT(3), STACK + 1024, 0, 0, 0);
	put(1024 + 16, RET(0));
	run_sigreturn(0x0f0000000fc0c748ull); /* mov $15, %rax; syscall */
	EXPECT(NONE, LEAF(1), TRAMPOLINE(2), LEAF(3), CALLER(0));
	run_sigreturn(0xc3050f0000000fb8ull); /* mov $15, %eax; syscall; any byte */
	EXPECT(NONE, LEAF(1), TRAMPOLINE(2), LEAF(3), CALLER(0));
	run_sigreturn(0x0f0000000ec0c748ull); /* another system call */
	EXPECT(FP_ROOT, LEAF(1), CALLER(2));
}

/* vfork keeps its return address in rdi while the stack has no room for it. */
static void test_vfork(void **state)
{
	TEXT(END, { CFA(RSP, 0), .ra = SO_RA(SO_RA_REG, SO_REG_RDI) }, RSP(16), RSP(8));
	set_reg(SO_REG_RDI, RET(2));
	put(8, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0));
	put(0, RET(1));
	unwind(AT(3), 0);
	EXPECT(STACK_ORDER, LEAF(3), CALLER(1));
}

static void test_ra_register_of_caller(void **state)
{
	TEXT(END, RSP(8), { CFA(RSP, 8), .ra = SO_RA(SO_RA_REG, SO_REG_RDI) });
	set_reg(SO_REG_RDI, RET(0));
	put(0, RET(2));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(2));
}

static void test_lost_rbp(void **state)
{
	TEXT(END, { CFA(RSP, 8), .saves = SO_SAVES(SO_SAVE_UNDEFINED, SO_SAVE_UNDEFINED) }, RSP(8), { CFA(RBP, 8) },
	     { CFA(RBX, 8) }, { CFA(RSP, 8), .rbp_off = -200, .saves = SO_SAVES(SO_SAVE_RBP, SO_SAVE_SAME) });
	set_reg(SO_REG_RBP, STACK);
	put(0, RET(2));
	put(8, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0)); /* nobody needs it */
	put(8, RET(3));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(2), CALLER(3));
	put(8, RET(4));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(2), CALLER(4));
	/* It would be found through an rbp that is not known itself. */
	put(8, RET(5));
	put(16, RET(3));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(2), CALLER(5), CALLER(3));
}

/* rbp cannot be read, the return address can: the walk goes on until somebody needs it. */
static void test_unreadable_save(void **state)
{
	TEXT(END, { CFA(RSP, 16), .rbp_off = -4096, .rbx_off = -5000, .saves = SO_SAVES(SO_SAVE_CFA, SO_SAVE_CFA) },
	     RSP(8), { CFA(RBP, 16) });
	w->low = STACK + 4096;
	set_reg(SO_REG_RBP, STACK + 5000);
	put(4096 + 8, RET(2));
	put(4096 + 16, RET(0));
	unwind(AT(1), 4096);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0));
	put(4096 + 16, RET(3));
	unwind(AT(1), 4096);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(2), CALLER(3));
}

static void test_frame_pointer(void **state)
{
	TEXT(END, NO_RULE, NO_RULE, RSP(32));
	set_reg(SO_REG_RBP, STACK + 64);
	put(64, STACK + 128);
	put(72, RET(2));
	put(128, 0);
	put(136, RET(3));
	put(144 + 24, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(0));
	assert_int_equal(w->u.flags, SO_STACK_FRAME_POINTER);
}

/* A frame pointer step says nothing about rbx. */
static void test_frame_pointer_forgets(void **state)
{
	TEXT(END, NO_RULE, { CFA(RBX, 8) }, { CFA(R12, 8) });
	set_reg(SO_REG_RBP, STACK + 64);
	set_reg(SO_REG_RBX, STACK + 128);
	put(128, RET(0));
	put(64, 0);
	put(72, RET(2));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(2));
	put(72, RET(3));
	unwind(AT(1), 0);
	EXPECT(REG_UNKNOWN, LEAF(1), CALLER(3));
}

static void fp_case(uint64_t bp, enum so_truncation cause)
{
	const uint64_t frame = LEAF(1);

	set_reg(SO_REG_RBP, bp);
	unwind(AT(1), 64);
	expect_frames(cause, &frame, 1);
	assert_int_equal(w->u.flags, 0);
}

static void test_frame_pointer_bad(void **state)
{
	TEXT(END, NO_RULE, { CFA(RSP, 8), .saves = SO_SAVES(SO_SAVE_UNDEFINED, SO_SAVE_SAME) });
	fp_case(0, SO_TRUNC_FP_ROOT);
	fp_case(STACK + 100, SO_TRUNC_NO_RULES);                  /* not aligned */
	fp_case(STACK + 56, SO_TRUNC_NO_RULES);                   /* below rsp */
	fp_case(0x7ffd12345678ull, SO_TRUNC_NO_RULES);            /* nowhere */
	fp_case(UINT64_MAX - 7, SO_TRUNC_NO_RULES);               /* wraps */
	fp_case(STACK + sizeof(w->stack) - 8, SO_TRUNC_NO_RULES); /* its return address is not readable */
	put(256, STACK + 512);
	put(264, 0);
	fp_case(STACK + 256, SO_TRUNC_FP_ROOT);
	put(264, 0x1234);
	fp_case(STACK + 256, SO_TRUNC_NO_RULES);
	put(264, BIAS + TEXT_VADDR); /* the byte before it is in no mapping */
	fp_case(STACK + 256, SO_TRUNC_NO_RULES);
	put(0, RET(1));
	set_reg(SO_REG_RBP, STACK + 256);
	put(264, RET(0));
	unwind(AT(2), 0); /* rbp was lost on the way */
	EXPECT(NO_RULES, LEAF(2), CALLER(1));
}

/* A frame pointer equal to rsp is right after the prologue's mov. */
static void test_frame_pointer_at_rsp(void **state)
{
	TEXT(END, NO_RULE);
	set_reg(SO_REG_RBP, STACK + 64);
	put(72, RET(0));
	unwind(AT(1), 64);
	EXPECT(NONE, LEAF(1), CALLER(0));
}

static void test_stack_order(void **state)
{
	TEXT(END, RSP(-8), RSP(0), RSP(8), { CFA(RBP, 16) });
	unwind(AT(1), 64);
	EXPECT(STACK_ORDER, LEAF(1));
	/* The innermost frame may have popped its return address; a caller may not. */
	put(56, RET(0));
	unwind(AT(2), 64);
	EXPECT(NONE, LEAF(2), CALLER(0));
	put(64, RET(2));
	unwind(AT(3), 64);
	EXPECT(STACK_ORDER, LEAF(3), CALLER(2));
	put(64, RET(4));
	set_reg(SO_REG_RBP, STACK);
	unwind(AT(3), 64);
	EXPECT(STACK_ORDER, LEAF(3), CALLER(4));
}

static void test_stack_unreadable(void **state)
{
	TEXT(END, RSP(16), RSP(4096));
	w->high = STACK + 4096;
	put(8, RET(2));
	unwind(AT(1), 0);
	EXPECT(STACK_READ, LEAF(1), CALLER(2));
	w->high = w->low;
	unwind(AT(1), 0);
	EXPECT(STACK_READ, LEAF(1));
	w->high = STACK + 4096;
	unwind(AT(1), 4096 - 15); /* all but the last byte of the return address */
	EXPECT(STACK_READ, LEAF(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rsp),
		TEST(only_end),
		TEST(noreturn_call),
		TEST(rbp),
		TEST(rbx_base),
		TEST(other_registers),
		TEST(kept_register),
		TEST(indexed),
		TEST(go_cgo),
		TEST(go_stack),
		TEST(realigned),
		TEST(deref_offset),
		TEST(deref_red_zone),
		TEST(deref_unreadable),
		TEST(plt),
		TEST(signal),
		TEST(alternate_stack),
		TEST(signal_unreadable),
		TEST(sigreturn_bytes),
		TEST(vfork),
		TEST(ra_register_of_caller),
		TEST(lost_rbp),
		TEST(unreadable_save),
		TEST(frame_pointer),
		TEST(frame_pointer_forgets),
		TEST(frame_pointer_bad),
		TEST(frame_pointer_at_rsp),
		TEST(stack_order),
		TEST(stack_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
