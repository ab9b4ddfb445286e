// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bpf/unwind.h on hand-made stacks and tables. Function i of the text is FUNCTION_BYTES long and has one rule; the
 * stack is an array of words, readable from world.low to world.high. Each test says the frames and the cause exactly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/table_pool.h"
#include "tests/golden/user_space.h"

#define TEXT_VADDR     0x10000ull
#define FUNCTION_BYTES 64
#define BIAS           0x555500000000ull
#define FILE_NUMBER    7
#define STACK          0x7ffc00000000ull
#define STACK_WORDS    16384
#define TGID           4242

/* Process addresses in function i: where a sample hits it, and where a call in it returns to. */
#define AT(i)  (BIAS + TEXT_VADDR + (i)*FUNCTION_BYTES + 8)
#define RET(i) (BIAS + TEXT_VADDR + (i)*FUNCTION_BYTES + 24)
/* The frames these must give. */
#define LEAF(i)   SO_FRAME(FILE_NUMBER, AT(i) - BIAS)
#define CALLER(i) SO_FRAME(FILE_NUMBER, RET(i) - BIAS - 1)

#define END                            \
	{                              \
		.cfa_kind = SO_CFA_END \
	}
#define CFA(reg, off) .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_##reg, .cfa_off = (off)
#define RSP(off)              \
	{                     \
		CFA(RSP, off) \
	}
#define RBP_AT(off) .rbp_off = (off), .saves = SO_SAVES(SO_SAVE_CFA, SO_SAVE_SAME)
#define KIND(kind)                        \
	{                                 \
		.cfa_kind = SO_CFA_##kind \
	}
#define NO_RULE                          \
	{                                \
		.cfa_kind = SO_CFA_KINDS \
	} /* of these tests: the function has no entry */

struct world {
	struct sampler *sampler;
	struct table_pool *pool;
	struct so_unwind u;
	uint64_t stack[STACK_WORDS];
	uint64_t low, high; /* readable part of the stack; by default all */
	uint64_t code;      /* the eight bytes at code_at are readable too */
	uint64_t code_at;
	uint32_t n_mappings;
};

static struct world *w;

static bool read_world(void *context, void *dst, uint32_t bytes, uint64_t address)
{
	assert_true(bytes <= UW_WINDOW_BYTES);
	if (w->code_at && address == w->code_at && bytes == 8) {
		memcpy(dst, &w->code, 8);
		return true;
	}
	if (address < w->low || address >= w->high || bytes > w->high - address)
		return false;
	memcpy(dst, (const char *)w->stack + (address - STACK), bytes);
	return true;
}

static int set_up(void **state)
{
	w = calloc(1, sizeof(*w));
	assert_non_null(w);
	w->sampler = fake_sampler__new();
	assert_non_null(w->sampler);
	assert_int_equal(table_pool__new(w->sampler, &w->pool), 0);
	w->low = STACK;
	w->high = STACK + sizeof(w->stack);
	memset(w->stack, 0xaa, sizeof(w->stack)); /* no address of anything */
	user_space.sampler = w->sampler;
	user_space.read = read_world;
	return 0;
}

static int tear_down(void **state)
{
	table_pool__free(w->pool);
	sampler__free(w->sampler);
	free(w);
	return 0;
}

static void add_mapping(struct so_mapping m)
{
	sampler__mappings(w->sampler)[w->n_mappings++] = m;
}

/* One function a rule, in one mapping of one file. */
static void add_text(const struct so_unwind_rule *rules, uint32_t n)
{
	struct unwind_table t = { .first_block = TEXT_VADDR >> SO_BLOCK_SHIFT, .n_rules = n };
	struct table_pieces pieces = { 0 };

	t.n_blocks = (uint32_t)(n * FUNCTION_BYTES / SO_BLOCK_BYTES + 1);
	t.index = calloc(t.n_blocks + 1, sizeof(*t.index));
	t.rows = calloc(n + 1, sizeof(*t.rows));
	t.rules = (struct so_unwind_rule *)rules;
	for (uint32_t i = 0; i <= n; i++) {
		bool none = i == n || rules[i].cfa_kind == SO_CFA_KINDS;

		t.rows[i] = SO_ROW(i * FUNCTION_BYTES, none ? SO_RULE_NONE : SO_FIRST_RULE + i);
		for (uint32_t block = i * FUNCTION_BYTES / SO_BLOCK_BYTES + 1; block <= t.n_blocks; block++)
			t.index[block] = i + 1;
	}
	t.n_rows = n + 1;
	assert_int_equal(table_pool__add(w->pool, &t, &pieces), 0);
	assert_int_equal(pieces.n, 1);
	add_mapping((struct so_mapping){ .start = BIAS + TEXT_VADDR,
					 .end = BIAS + TEXT_VADDR + (n + 1) * FUNCTION_BYTES,
					 .bias = BIAS,
					 .index = pieces.pieces[0].index,
					 .first_block = (uint32_t)t.first_block,
					 .n_blocks = t.n_blocks,
					 .shard = (uint16_t)pieces.pieces[0].shard,
					 .file = FILE_NUMBER });
	free(pieces.pieces);
	free(t.index);
	free(t.rows);
}

#define TEXT(...)                                                              \
	do {                                                                   \
		static const struct so_unwind_rule rules_[] = { __VA_ARGS__ }; \
		add_text(rules_, sizeof(rules_) / sizeof(rules_[0]));          \
	} while (0)

/* Stack words from `off` bytes above its beginning on. */
static void put(uint32_t off, uint64_t value)
{
	memcpy((char *)w->stack + off, &value, sizeof(value));
}

static void set_reg(enum so_reg reg, uint64_t value)
{
	w->u.regs[reg] = value;
}

static void unwind(uint64_t pc, uint32_t sp_off)
{
	set_reg(SO_REG_RSP, STACK + sp_off);
	user_space__unwind(&w->u, pc, w->n_mappings);
}

static void expect_frames(enum so_truncation cause, const uint64_t *want, uint32_t n)
{
	if (w->u.cause != cause)
		fail_msg("cause %u, not %u, after %u frames", w->u.cause, cause, w->u.n);
	for (uint32_t i = 0; i < n && i < w->u.n; i++) {
		if (w->u.frames[i] != want[i])
			fail_msg("frame %u is %#llx, not %#llx", i, (unsigned long long)w->u.frames[i],
				 (unsigned long long)want[i]);
	}
	assert_int_equal(w->u.n, n);
}

#define EXPECT(cause, ...)                                                                \
	do {                                                                              \
		const uint64_t want_[] = { __VA_ARGS__ };                                 \
		expect_frames(SO_TRUNC_##cause, want_, sizeof(want_) / sizeof(want_[0])); \
	} while (0)

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
		rules[i + 1] =
			(struct so_unwind_rule){ .cfa_kind = SO_CFA_REG, .cfa_reg = regs[i], .cfa_off = 24 };
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
static void put_sigcontext(uint32_t sp_off, uint64_t rip, uint64_t rsp, uint64_t rbp, uint64_t rbx,
			   uint64_t r10)
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
	EXPECT(NONE, LEAF(1), CALLER(2), SO_FRAME(FILE_NUMBER, first - BIAS), CALLER(4), CALLER(5), CALLER(0));
}

/* The handler ran on another stack, above the interrupted one. */
static void test_alternate_stack(void **state)
{
	TEXT(END, RSP(16), KIND(SIGNAL), RSP(32));
	put(40008, RET(2));
	put_sigcontext(40016, AT(3), STACK + 64, 0, 0, 0);
	put(64 + 24, RET(0));
	unwind(AT(1), 40000);
	EXPECT(NONE, LEAF(1), CALLER(2), LEAF(3), CALLER(0));
}

/* The saved registers go on in a page that cannot be read. */
static void test_signal_unreadable(void **state)
{
	TEXT(END, RSP(8), KIND(SIGNAL));
	w->high = STACK + 4096;
	put(4096 - 128, RET(2));
	unwind(AT(1), 4096 - 128);
	EXPECT(STACK_READ, LEAF(1), CALLER(2));
}

static void run_sigreturn(uint64_t code)
{
	w->code = code;
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
	EXPECT(NONE, LEAF(1), CALLER(2), LEAF(3), CALLER(0));
	run_sigreturn(0xc3050f0000000fb8ull); /* mov $15, %eax; syscall; any byte */
	EXPECT(NONE, LEAF(1), CALLER(2), LEAF(3), CALLER(0));
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
	TEXT(END, { CFA(RSP, 8), .saves = SO_SAVES(SO_SAVE_UNDEFINED, SO_SAVE_UNDEFINED) }, RSP(8),
	     { CFA(RBP, 8) }, { CFA(RBX, 8) },
	     { CFA(RSP, 8), .rbp_off = -200, .saves = SO_SAVES(SO_SAVE_RBP, SO_SAVE_SAME) });
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
	TEXT(END,
	     { CFA(RSP, 16), .rbp_off = -4096, .rbx_off = -5000, .saves = SO_SAVES(SO_SAVE_CFA, SO_SAVE_CFA) },
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

/* The stack ends at a page's end, nearer than a window. */
static void test_window_at_page_end(void **state)
{
	TEXT(END, RSP(16), RSP(24), RSP(8));
	w->high = STACK + 4096;
	put(4096 - 64 + 8, RET(2));
	put(4096 - 64 + 16 + 16, RET(3));
	put(4096 - 8, RET(0));
	put(4096 - 64 + 40, RET(3));
	put(4096 - 64 + 48, RET(3));
	unwind(AT(1), 4096 - 64);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(3), CALLER(3), CALLER(0));
	assert_int_equal(user_space.reads, 2); /* the whole window, then what the page holds of it */
}

/* Frames of every size, so that return addresses and saved registers fall on each side of window and page ends. */
static void test_windows(void **state)
{
	struct so_unwind_rule rules[200] = { END };
	uint64_t want[200];
	uint32_t seed = 1, n = 0, sp = 24, start = 24;

	for (unsigned i = 1; i < 200; i++) {
		rules[i] = (struct so_unwind_rule){ .cfa_kind = SO_CFA_REG,
						    .cfa_reg = i % 3 ? SO_REG_RSP : SO_REG_RBP,
						    .cfa_off = i % 3 ? (int)(16 + i % 2 * 8 + i * 7 % 150 * 8)
								     : 16,
						    .rbp_off = -16,
						    .saves = SO_SAVES(SO_SAVE_CFA, SO_SAVE_SAME) };
	}
	add_text(rules, 200);
	set_reg(SO_REG_RBP, 0);
	for (unsigned f = 1; n < 150; n++) {
		unsigned next = n == 149 ? 0 : 1 + (seed = seed * 1103515245 + 12345) / 65536 % 199;
		uint32_t cfa = sp + (f % 3 ? (uint32_t)rules[f].cfa_off : 40);

		want[n] = n ? CALLER(f) : LEAF(f);
		if (f % 3 == 0 && n == 0)
			set_reg(SO_REG_RBP, STACK + cfa - 16);
		/* The next function's CFA is known: sizes are fixed, so its rbp is what this one saved. */
		put(cfa - 16, STACK + cfa + 40 - 16);
		put(cfa - 8, RET(next));
		sp = cfa;
		f = next;
	}
	want[n++] = CALLER(0);
	assert_true(sp < sizeof(w->stack) - 4096);
	for (unsigned room = 0; room < 2; room++) {
		w->high = STACK + (room ? (sp + 4095) / 4096 * 4096 : sizeof(w->stack));
		unwind(AT(1), start);
		expect_frames(SO_TRUNC_NONE, want, n);
	}
	assert_true(user_space.reads < 2 * n);
}

/* The window holds the page's rest; the word wanted lies in the page after it, which cannot be read, or can. */
static void test_word_beyond_page(void **state)
{
	TEXT(END, { CFA(RSP, 272), RBP_AT(-128) }, { CFA(RBP, 16) });
	put(4096 - 256 + 264, RET(2));
	put(4096 - 256 + 272 - 128, STACK + 4096 - 128);
	put(4096 - 128 + 8, RET(0));
	w->high = STACK + 4096;
	unwind(AT(1), 4096 - 256);
	EXPECT(STACK_READ, LEAF(1));
	w->high = STACK + 8192;
	unwind(AT(1), 4096 - 256);
	EXPECT(STACK_ORDER, LEAF(1), CALLER(2));
	put(4096 - 256 + 272 - 128, STACK + 5000);
	put(5008, RET(0));
	unwind(AT(1), 4096 - 256);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0));
}

static void test_unaligned_cfa(void **state)
{
	TEXT(END, RSP(13), RSP(16), { CFA(RSP, 24), RBP_AT(-16) }, { CFA(RBP, 16) });
	put(5, RET(2));
	put(13 + 8, RET(3));
	put(29 + 8, STACK + 99);
	put(29 + 16, RET(4));
	put(99 + 8, RET(0));
	unwind(AT(1), 0);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(3), CALLER(4), CALLER(0));
}

static void test_unaligned_rsp(void **state)
{
	TEXT(END, RSP(11), RSP(8));
	put(0x65 + 3, RET(2));
	put(0x65 + 11, RET(0));
	unwind(AT(1), 0x65);
	EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0));
}

/* SO_MAX_USER_FRAMES frames that end at the outermost one are complete, one more is cut. */
static void test_depth(void **state)
{
	uint64_t want[SO_MAX_USER_FRAMES];

	TEXT(END, RSP(16));
	want[0] = LEAF(1);
	for (unsigned i = 1; i < SO_MAX_USER_FRAMES; i++)
		want[i] = CALLER(1);
	for (unsigned i = 0; i < SO_MAX_USER_FRAMES; i++)
		put(i * 16 + 8, RET(1));
	unwind(AT(1), 0);
	expect_frames(SO_TRUNC_DEPTH, want, SO_MAX_USER_FRAMES);

	put((SO_MAX_USER_FRAMES - 1) * 16 + 8, RET(0));
	unwind(AT(1), 0);
	expect_frames(SO_TRUNC_DEPTH, want, SO_MAX_USER_FRAMES);

	put((SO_MAX_USER_FRAMES - 2) * 16 + 8, RET(0));
	want[SO_MAX_USER_FRAMES - 1] = CALLER(0);
	unwind(AT(1), 0);
	expect_frames(SO_TRUNC_NONE, want, SO_MAX_USER_FRAMES);
}

static void test_no_mapping(void **state)
{
	TEXT(END, RSP(8), RSP(16));
	unwind(0x1234, 0);
	EXPECT(NO_MAPPING, SO_FRAME(0, 0x1234));
	assert_int_equal(w->u.no_file, 1);
	put(0, RET(2));
	put(16, 0x1234);
	unwind(AT(1), 0);
	EXPECT(NO_MAPPING, LEAF(1), CALLER(2)); /* nothing is said of an address that is none */
	put(16, 0);
	unwind(AT(1), 0);
	EXPECT(NO_MAPPING, LEAF(1), CALLER(2));
	w->n_mappings = 0;
	unwind(AT(1), 0);
	EXPECT(NO_MAPPING, SO_FRAME(0, AT(1)));
}

static void test_mapping_ends(void **state)
{
	TEXT(END, RSP(8));
	add_mapping((struct so_mapping){
		.start = 0x600000000000, .end = 0x600000001000, .state = SO_MAPPING_NO_TABLE });
	unwind(BIAS + TEXT_VADDR - 1, 0);
	EXPECT(NO_MAPPING, SO_FRAME(0, BIAS + TEXT_VADDR - 1));
	unwind(BIAS + TEXT_VADDR, 0);
	EXPECT(NONE, SO_FRAME(FILE_NUMBER, TEXT_VADDR));
	unwind(0x5fffffffffff, 0);
	EXPECT(NO_MAPPING, SO_FRAME(0, 0x5fffffffffff));
	unwind(0x600000001000, 0);
	EXPECT(NO_MAPPING, SO_FRAME(0, 0x600000001000));
	unwind(0x600000000fff, 0);
	EXPECT(FP_ROOT, SO_FRAME(0, 0x600000000fff));
}

static void test_mapping_states(void **state)
{
	TEXT(END, RSP(8));
	add_mapping((struct so_mapping){ .start = 0x600000000000,
					 .end = 0x600000001000,
					 .file = 9,
					 .bias = 0x600000000000,
					 .state = SO_MAPPING_FULL });
	add_mapping((struct so_mapping){ .start = 0x600000001000,
					 .end = 0x600000002000,
					 .file = 9,
					 .bias = 0x600000000000,
					 .state = SO_MAPPING_BROKEN });
	add_mapping((struct so_mapping){
		.start = 0x600000002000, .end = 0x600000003000, .file = 0, .state = SO_MAPPING_NO_TABLE });
	unwind(0x600000000010, 0);
	EXPECT(TABLE_FULL, SO_FRAME(9, 0x10));
	put(0, 0x600000001010);
	unwind(AT(1), 0);
	EXPECT(TABLE_BROKEN, LEAF(1), SO_FRAME(9, 0x100f));
	/* Code of no file, as a just-in-time compiler makes it, with frame pointers. */
	set_reg(SO_REG_RBP, STACK + 64);
	put(64, STACK + 128);
	put(72, 0x600000002020);
	put(128, 0);
	put(136, RET(0));
	unwind(0x600000002010, 0);
	EXPECT(NONE, SO_FRAME(0, 0x600000002010), SO_FRAME(0, 0x60000000201f), CALLER(0));
	assert_int_equal(w->u.no_file, 2);
	assert_int_equal(w->u.flags, SO_STACK_FRAME_POINTER);
}

static void test_many_mappings(void **state)
{
	TEXT(END);
	w->n_mappings = 0; /* those below come first */
	for (uint64_t i = 0; i < SO_MAX_PROCESS_MAPPINGS; i++)
		add_mapping((struct so_mapping){ .start = 0x1000 + i * 0x2000,
						 .end = 0x2000 + i * 0x2000,
						 .bias = 0x1000 + i * 0x2000,
						 .file = (uint16_t)(1 + i),
						 .state = SO_MAPPING_FULL });
	for (uint64_t i = 0; i < SO_MAX_PROCESS_MAPPINGS; i += i % 5 + 1) {
		unwind(0x1000 + i * 0x2000, 0);
		EXPECT(TABLE_FULL, SO_FRAME(1 + i, 0));
		unwind(0x1fff + i * 0x2000, 0);
		EXPECT(TABLE_FULL, SO_FRAME(1 + i, 0xfff));
		unwind(0x2000 + i * 0x2000, 0);
		EXPECT(NO_MAPPING, SO_FRAME(0, 0x2000 + i * 0x2000));
	}
}

static void test_rules_that_cut(void **state)
{
	TEXT(END, KIND(UNSUPPORTED), RSP(8));
	put(0, RET(1));
	unwind(AT(2), 0);
	EXPECT(RULE_UNSUPPORTED, LEAF(2), CALLER(1));
}

/* A table whose rule did not fit, one without its shard, an address beyond its blocks, a rule of kind "none". */
static void test_incomplete_tables(void **state)
{
	uint32_t *words;
	struct so_mapping *m;

	TEXT(END, KIND(NONE), RSP(8));
	m = &sampler__mappings(w->sampler)[0];
	put(0, RET(1));
	unwind(AT(2), 0);
	EXPECT(FP_ROOT, LEAF(2), CALLER(1));
	m->end += 1 << 20;
	unwind(BIAS + TEXT_VADDR + (1 << 20), 0);
	EXPECT(FP_ROOT, SO_FRAME(FILE_NUMBER, TEXT_VADDR + (1 << 20)));
	m->shard = 3;
	unwind(AT(2), 0);
	EXPECT(FP_ROOT, LEAF(2));
	m->shard = 0;
	assert_int_equal(sampler__shard_open(w->sampler, 0, &words), 0);
	for (uint32_t i = 0; i < 16; i++) {
		if (words[i] >> SO_BLOCK_SHIFT >= SO_FIRST_RULE)
			words[i] = SO_ROW(words[i], SO_RULE_UNAVAILABLE);
	}
	sampler__shard_close(words);
	unwind(AT(2), 0);
	EXPECT(RULE_TABLE_FULL, LEAF(2));
}

/* Code without rules whose rules can be learned: the walk stops there and says so. */
static void test_learn(void **state)
{
	TEXT(END, NO_RULE, RSP(8));
	set_reg(SO_REG_RBP, STACK + 64);
	put(72, RET(0));
	put(0, RET(1));
	sampler__mappings(w->sampler)[0].flags = SO_MAPPING_LEARN;
	unwind(AT(2), 0);
	EXPECT(NO_RULES, LEAF(2), CALLER(1));
	assert_true(w->u.learn);
	assert_int_equal(w->u.flags, 0);
	sampler__mappings(w->sampler)[0].state = SO_MAPPING_NO_TABLE;
	unwind(AT(2), 0);
	EXPECT(NO_RULES, LEAF(2));
	assert_true(w->u.learn);
	sampler__mappings(w->sampler)[0].flags = 0;
	sampler__mappings(w->sampler)[0].state = SO_MAPPING_TABLE;
	unwind(AT(2), 0);
	EXPECT(NONE, LEAF(2), CALLER(1), CALLER(0));
	assert_false(w->u.learn);
}

/* In code that may be rewritten at any time, a return address has a call before it, or it is none. */
static void test_writable_code(void **state)
{
	static const struct {
		uint64_t code; /* the eight bytes before the return address, the first of them lowest */
		bool call;
	} cases[] = {
		{ 0x78563412e8909090ull, true },  /* e8 rel32 */
		{ 0xd0ff909090909090ull, true },  /* call *%rax */
		{ 0x13ff909090909090ull, true },  /* call *(%rbx) */
		{ 0x0853ff9090909090ull, true },  /* call *8(%rbx) */
		{ 0x082454ff90909090ull, true },  /* call *8(%rsp) */
		{ 0x1234567815ff9090ull, true },  /* call *disp32(%rip) */
		{ 0x123456782494ff90ull, true },  /* call *disp32(%rsp) */
		{ 0x9090909090909090ull, false }, /* nops */
		{ 0xe0ff909090909090ull, false }, /* jmp *%rax */
		{ 0x90e8909090909090ull, false }, /* e8 in another place */
	};

	TEXT(END, RSP(8), RSP(8));
	sampler__mappings(w->sampler)[0].flags = SO_MAPPING_WRITABLE;
	put(0, RET(0));
	w->code_at = RET(0) - 8;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		w->code = cases[i].code;
		unwind(AT(1), 0);
		if (cases[i].call)
			EXPECT(NONE, LEAF(1), CALLER(0));
		else
			EXPECT(NO_RULES, LEAF(1));
	}
	w->code_at = 0; /* it cannot be read */
	unwind(AT(1), 0);
	EXPECT(NO_RULES, LEAF(1));
}

/* What a stack is known by: its frames, its cause, and for frames in no file the process. */
static void test_hash(void **state)
{
	uint64_t complete, broken, longer, jit;

	TEXT(END, RSP(8), RSP(16));
	add_mapping((struct so_mapping){
		.start = 0x600000000000, .end = 0x600000001000, .state = SO_MAPPING_NO_TABLE });
	put(0, RET(0));
	unwind(AT(1), 0);
	complete = uw_stack_hash(&w->u, TGID);
	assert_true(complete == uw_stack_hash(&w->u, TGID + 1));
	unwind(AT(1), 0);
	assert_true(complete == uw_stack_hash(&w->u, TGID));
	w->u.cause = SO_TRUNC_DEPTH;
	assert_true(complete != uw_stack_hash(&w->u, TGID));
	w->high = STACK;
	unwind(AT(1), 0);
	broken = uw_stack_hash(&w->u, TGID);
	w->high = STACK + 4096;
	put(0, RET(2));
	put(16, RET(0));
	unwind(AT(1), 0);
	longer = uw_stack_hash(&w->u, TGID);
	assert_true(complete != broken && complete != longer && broken != longer);
	unwind(0x600000000010, 0);
	jit = uw_stack_hash(&w->u, TGID);
	assert_true(jit != uw_stack_hash(&w->u, TGID + 1));
}

/* Registers, stack and tables at random: it ends, within its arrays, with a cause that fits. */
static void test_garbage(void **state)
{
	struct so_unwind_rule rules[64];
	uint64_t seed = 88172645463325252ull;
	unsigned causes[SO_TRUNC_COUNT] = { 0 };

	for (unsigned i = 0; i < 64; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		rules[i] = (struct so_unwind_rule){
			.cfa_kind = (uint8_t)(SO_CFA_END + (seed >> 60) % (SO_CFA_KINDS - SO_CFA_END)),
			.cfa_reg = (uint8_t)(seed >> 40 & 15),
			.cfa_off = (int8_t)(seed >> 32),
			.cfa_off2 = (int8_t)(seed >> 24),
			.rbp_off = (int8_t)(seed >> 16),
			.rbx_off = (int8_t)(seed >> 8),
			.saves = SO_SAVES(seed >> 44 & 3, seed >> 46 & 3),
			.ra = SO_RA(seed >> 48 & 1, seed >> 49 & 15),
		};
		if (seed >> 56 & 1)
			rules[i] = (struct so_unwind_rule)RSP((int)(8 + (seed >> 20 & 0xf8)));
	}
	add_text(rules, 64);
	for (unsigned round = 0; round < 20000; round++) {
		for (unsigned i = 0; i < SO_NREGS; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			set_reg(i, STACK + (seed >> 33) % sizeof(w->stack));
		}
		for (unsigned i = 0; i < 64; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			put((seed >> 33) % (sizeof(w->stack) / 8) * 8,
			    i % 4 ? RET(seed >> 58) : STACK + (seed >> 20) % sizeof(w->stack));
		}
		unwind(BIAS + TEXT_VADDR + (seed >> 13) % (65 * FUNCTION_BYTES),
		       (seed >> 30) % sizeof(w->stack));
		assert_true(w->u.n >= 1 && w->u.n <= SO_MAX_USER_FRAMES);
		assert_true(w->u.cause < SO_TRUNC_COUNT);
		causes[w->u.cause]++;
	}
	assert_true(causes[SO_TRUNC_NONE] && causes[SO_TRUNC_STACK_ORDER] && causes[SO_TRUNC_NO_MAPPING] &&
		    causes[SO_TRUNC_REG_UNKNOWN] && causes[SO_TRUNC_STACK_READ]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(rsp),
		TEST(only_end),
		TEST(noreturn_call),
		TEST(rbp),
		TEST(rbx_base),
		TEST(other_registers),
		TEST(realigned),
		TEST(deref_offset),
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
		TEST(window_at_page_end),
		TEST(windows),
		TEST(word_beyond_page),
		TEST(unaligned_cfa),
		TEST(unaligned_rsp),
		TEST(depth),
		TEST(no_mapping),
		TEST(mapping_ends),
		TEST(mapping_states),
		TEST(many_mappings),
		TEST(rules_that_cut),
		TEST(incomplete_tables),
		TEST(learn),
		TEST(writable_code),
		TEST(hash),
		TEST(garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
