// SPDX-License-Identifier: GPL-2.0-or-later
/* What surrounds the rules: how memory is read, depth, mappings, tables that lack something, a stack's hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/unwind_world.h"

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
	put(8, RET(2)); /* the same, where a coroutine's stack may begin */
	put(24, 0);
	unwind(AT(1), 8);
	EXPECT(NONE, LEAF(1), CALLER(2));
	put(8, 0); /* the innermost frame's rule may be wrong */
	unwind(AT(1), 8);
	EXPECT(NO_MAPPING, LEAF(1));
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
		w->code[0] = cases[i].code;
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

/* The frame of HotSpot's interpreter that is returned to. Offsets on the stack. */
struct java {
	uint64_t code[2];
	uint64_t noted; /* in the frame: the interpreter's rsp */
	uint32_t bp;
};

#define JAVA_BP 256
#define NOTED   (STACK + 64)

/* Function 1 is compiled and returns to 2, the interpreter, whose frame leads to 0. */
static void run_java(const struct java *java)
{
	memcpy(w->code, java->code, sizeof(w->code));
	w->code_at = RET(2);
	put(0, STACK + java->bp);
	put(8, RET(2));
	put(JAVA_BP - 16, java->noted);
	put(JAVA_BP, 0);
	put(JAVA_BP + 8, RET(0));
	unwind(AT(1), 0);
}

/*
 * HotSpot's interpreter jumps to compiled code, having pushed the address of a return entry: that one is a caller
 * although no call lies before it, if its frame looks as such a frame does.
 */
static void test_java_return_entry(void **state)
{
	static const struct java good[] = {
		/* mov -16(%rbp), %rsp; movq $0, -16(%rbp); any bytes */
		{ { 0xf045c748f0658b48ull, 0x90c86d8b00000000ull }, NOTED, JAVA_BP },
		{ { 0xf045c748f0658b48ull, 0 }, STACK + 8, JAVA_BP }, /* an argument was taken off */
		{ { 0xf045c748f0658b48ull, 0 }, STACK + JAVA_BP - 8, JAVA_BP },
		/* mov -16(%rbp), %rcx; lea (%rbp,%rcx,8), %rsp; movq $0, -16(%rbp) */
		{ { 0xcd648d48f04d8b48ull, 0x000000f045c74800ull }, (uint64_t)-24, JAVA_BP },
	};
	static const struct java bad[] = {
		{ { 0xf045c748f0658b48ull, 1 }, NOTED, JAVA_BP }, /* another value */
		{ { 0xf845c748f0658b48ull, 0 }, NOTED, JAVA_BP }, /* into another place */
		{ { 0, 0 }, NOTED, JAVA_BP },
		{ { 0xf045c748f0658b48ull, 0 }, 0, JAVA_BP },               /* it is not in a call */
		{ { 0xf045c748f0658b48ull, 0 }, STACK, JAVA_BP },           /* below the callee's arguments */
		{ { 0xf045c748f0658b48ull, 0 }, STACK + JAVA_BP, JAVA_BP }, /* beyond its own frame */
		{ { 0xcd648d48f04d8b48ull, 0x000000f045c74800ull }, (uint64_t)-40, JAVA_BP },
		{ { 0xcd648d48f04d8b48ull, 0x000000f045c74800ull }, 3, JAVA_BP },
		{ { 0xcd648d48f04d8b48ull, 0x000000f845c74800ull }, (uint64_t)-24, JAVA_BP },
		{ { 0xf045c748f0658b48ull, 0 }, NOTED, JAVA_BP + 4 }, /* no frame pointer */
		{ { 0xf045c748f0658b48ull, 0 }, NOTED, 8 },           /* below the stack pointer */
		{ { 0xf045c748f0658b48ull, 0 }, NOTED, sizeof(w->stack) + 64 },
	};

	TEXT(END, { CFA(RSP, 16), RBP_AT(-16) }, KIND(NONE));
	sampler__mappings(w->sampler)[0].flags = SO_MAPPING_WRITABLE;
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		run_java(&good[i]);
		EXPECT(NONE, LEAF(1), CALLER(2), CALLER(0));
	}
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		run_java(&bad[i]);
		EXPECT(NO_RULES, LEAF(1));
	}
}

/*
 * Compiled code that the interpreter returns to: arguments and locals lie between its return address and its stack
 * pointer.
 */
static void test_java_sender_sp(void **state)
{
	static const struct {
		uint64_t noted;
		uint32_t sp; /* the caller's */
	} cases[] = {
		{ STACK + JAVA_BP + 64, JAVA_BP + 64 }, { STACK + JAVA_BP + 16, JAVA_BP + 16 },
		{ STACK + JAVA_BP + 60, JAVA_BP + 16 }, /* no stack pointer */
		{ STACK + JAVA_BP, JAVA_BP + 16 },      { STACK + JAVA_BP + 16 + 65536 * 8 + 8, JAVA_BP + 16 },
	};

	TEXT(END, RSP(32), KIND(NONE));
	sampler__mappings(w->sampler)[0].flags = SO_MAPPING_WRITABLE;
	w->code[0] = 0x78563412e8909090ull; /* call */
	w->code_at = RET(0) - 8;
	set_reg(SO_REG_RBP, STACK + JAVA_BP);
	put(JAVA_BP, 0);
	put(JAVA_BP + 8, RET(1));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put(JAVA_BP - 8, cases[i].noted);
		put(cases[i].sp + 24, RET(0));
		unwind(AT(2), 0);
		EXPECT(NONE, LEAF(2), CALLER(1), CALLER(0));
		put(cases[i].sp + 24, 0);
		unwind(AT(2), 0);
		EXPECT(NO_RULES, LEAF(2), CALLER(1));
	}
}

/* Where rbp was lost, nothing tells that the frame is one. */
static void test_java_return_entry_without_rbp(void **state)
{
	static const struct java java = { { 0xf045c748f0658b48ull, 0 }, NOTED, JAVA_BP };

	TEXT(END, { CFA(RSP, 16), .saves = SO_SAVES(SO_SAVE_UNDEFINED, SO_SAVE_SAME) }, KIND(NONE));
	sampler__mappings(w->sampler)[0].flags = SO_MAPPING_WRITABLE;
	set_reg(SO_REG_RBP, STACK + JAVA_BP);
	run_java(&java);
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
	const struct CMUnitTest tests[] = {
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
		TEST(java_return_entry),
		TEST(java_sender_sp),
		TEST(java_return_entry_without_rbp),
		TEST(hash),
		TEST(garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
