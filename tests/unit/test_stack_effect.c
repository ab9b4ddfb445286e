// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rules from machine code alone. What they ought to be is known in two ways: for samples that run, from a real
 * execution in anonymous memory, stopped at every instruction; for the others they are written down.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "daemon/unwind/stack_effect.h"
#include "tests/unit/stack_code_samples.h"

struct code {
	const uint8_t *bytes;
	size_t size;
	uint64_t address; /* of bytes[0] */
};

static size_t read_code(void *context, uint64_t address, void *buf, size_t size)
{
	const struct code *code = context;
	uint64_t at = address - code->address;

	if (at >= code->size)
		return 0;
	if (size > code->size - at)
		size = code->size - at;
	memcpy(buf, code->bytes + at, size);
	return size;
}

static int make_reader(void **state)
{
	return effect_reader__new((struct effect_reader **)state);
}

static int free_reader(void **state)
{
	effect_reader__free(*state);
	return 0;
}

/* Samples are followed as if they lay here. */
#define BASE 0x7f1234567000ull

static struct code make_code(const uint8_t *start, const uint8_t *end)
{
	return (struct code){ .bytes = start, .size = (size_t)(end - start), .address = BASE };
}

static int follow_code(struct effect_reader *reader, struct code *code, const uint8_t *at,
		       struct effect_rows *rows)
{
	return stack_effect__follow(reader, read_code, code, code->address + (uint64_t)(at - code->bytes),
				    code->address, code->address + code->size, rows);
}

static void check_rows(const struct effect_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		assert_true(rows->rows[i].length > 0);
	for (size_t i = 1; i < rows->n; i++) {
		const struct effect_row *last = &rows->rows[i - 1], *row = &rows->rows[i];

		assert_true(last->address + last->length <= row->address);
		if (last->address + last->length == row->address)
			assert_memory_not_equal(&last->rule, &row->rule, sizeof(row->rule));
	}
}

static void expect_row(const struct effect_rows *rows, uint64_t address, const struct so_unwind_rule *wanted)
{
	const struct effect_row *row = effect_rows__find(rows, address);

	assert_non_null(row);
	assert_memory_equal(&row->rule, wanted, sizeof(*wanted));
}

/* The rule at `at`, followed from there. */
static void expect_rule(struct effect_reader *reader, const uint8_t *start, const uint8_t *end,
			const uint8_t *at, struct so_unwind_rule wanted)
{
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct code code = make_code(start, end);
	struct effect_rows rows = { 0 };

	assert_int_equal(follow_code(reader, &code, at, &rows), 0);
	owner = &rows;
	check_rows(&rows);
	expect_row(&rows, BASE + (uint64_t)(at - start), &wanted);
}

static void expect_none(struct effect_reader *reader, const uint8_t *start, const uint8_t *end,
			const uint8_t *at)
{
	struct code code = make_code(start, end);
	struct effect_rows rows = { .n = 12345 };

	assert_int_equal(follow_code(reader, &code, at, &rows), -ENOENT);
	assert_int_equal(rows.n, 12345);
	assert_null(rows.rows);
}

#define EXPECT(name, at, ...) \
	expect_rule(*state, sample_##name, sample_##name##_end, at, (struct so_unwind_rule){ __VA_ARGS__ })
#define EXPECT_NONE(name, at) expect_none(*state, sample_##name, sample_##name##_end, at)
#define CFA(reg, off)         .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_##reg, .cfa_off = (off)
#define DEREF(reg, off, off2) \
	.cfa_kind = SO_CFA_DEREF, .cfa_reg = SO_REG_##reg, .cfa_off = (off), .cfa_off2 = (off2)
#define SAVES(rbp, rbx) .saves = SO_SAVES(SO_SAVE_##rbp, SO_SAVE_##rbx)

static void test_pushes(void **state)
{
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct code code = make_code(sample_pushes, sample_pushes_end);
	struct effect_rows rows = { 0 };
	struct so_unwind_rule rule = { CFA(RSP, 200), SAVES(CFA, CFA), .rbp_off = -24, .rbx_off = -16 };

	EXPECT(pushes, sample_pushes, CFA(RSP, 8), SAVES(SAME, SAME));
	EXPECT(pushes, at_pushes_1, CFA(RSP, 16), SAVES(SAME, CFA), .rbx_off = -16);
	EXPECT(pushes, at_pushes_pop, CFA(RSP, 24), SAVES(CFA, CFA), .rbp_off = -24, .rbx_off = -16);
	EXPECT(pushes, at_pushes_ret, CFA(RSP, 8), SAVES(SAME, SAME));

	/* One following gives the rules of the whole loop and of what comes after it, but not of what came before. */
	assert_int_equal(follow_code(*state, &code, at_pushes_loop + 3, &rows), 0);
	owner = &rows;
	check_rows(&rows);
	expect_row(&rows, BASE + (uint64_t)(at_pushes_loop - sample_pushes), &rule);
	assert_null(effect_rows__find(&rows, BASE + (uint64_t)(at_pushes_body - sample_pushes)));
	assert_null(effect_rows__find(&rows, BASE + code.size));
	rule.cfa_off = 24;
	expect_row(&rows, BASE + (uint64_t)(at_pushes_pop - sample_pushes), &rule);
}

static void test_frames(void **state)
{
	EXPECT(moves, at_moves_body, CFA(RSP, 0x68), SAVES(CFA, CFA), .rbp_off = -0x60, .rbx_off = -0x68);
	EXPECT(frame_pointer, sample_frame_pointer, CFA(RSP, 8), SAVES(SAME, SAME));
	EXPECT(frame_pointer, at_frame_pointer_body, CFA(RBP, 16), SAVES(CFA, CFA), .rbp_off = -16,
	       .rbx_off = -24);
	EXPECT(variable_frame, at_variable_frame_body, CFA(RBP, 16), SAVES(CFA, CFA), .rbp_off = -16,
	       .rbx_off = -24);
	EXPECT(red_zone, at_red_zone_body, CFA(RSP, 8), SAVES(CFA, CFA), .rbp_off = -24, .rbx_off = -16);
	EXPECT(callee_pops, sample_callee_pops, CFA(RSP, 16), SAVES(SAME, CFA), .rbx_off = -16);
}

static void test_realigned_frames(void **state)
{
	EXPECT(realign_rbx, at_realign_rbx_body, CFA(RBX, 0x68), SAVES(CFA, CFA), .rbp_off = -0x60,
	       .rbx_off = -0x68);
	EXPECT(realign_stored, at_realign_stored_body, DEREF(RSP, 0x110, 8), SAVES(CFA, CFA), .rbp_off = -24,
	       .rbx_off = -16);
	/* The CFA lies in the frame: as .eh_frame has it, at rbp - 8. */
	EXPECT(realign_r10, at_realign_r10_body, DEREF(RSP, 0x68, 0), SAVES(UNDEFINED, UNDEFINED));
	EXPECT_NONE(lost_stack_pointer, sample_lost_stack_pointer);
}

static void test_lost_registers(void **state)
{
	EXPECT(not_restored, sample_not_restored, CFA(RSP, 8), SAVES(UNDEFINED, UNDEFINED));
	EXPECT(overwritten, sample_overwritten, CFA(RSP, 24), SAVES(UNDEFINED, UNDEFINED));
	EXPECT(call_below, sample_call_below, CFA(RSP, 32), SAVES(SAME, UNDEFINED));
}

static void test_restored_early(void **state)
{
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct code code = make_code(sample_kept_elsewhere, sample_kept_elsewhere_end);
	struct so_unwind_rule rule = { CFA(RSP, 16), SAVES(SAME, UNDEFINED) };
	struct effect_rows rows = { 0 };

	EXPECT(restored_early, at_restored_early_body, CFA(RSP, 24), SAVES(CFA, CFA), .rbp_off = -24,
	       .rbx_off = -16);
	EXPECT(restored_early, at_restored_early_again, CFA(RSP, 32), SAVES(SAME, SAME));
	EXPECT(restored_before_call, sample_restored_before_call, CFA(RSP, 24), SAVES(SAME, CFA), .rbx_off = -24);

	/* Where it was saved lies something else now. */
	assert_int_equal(follow_code(*state, &code, at_kept_elsewhere_body, &rows), 0);
	owner = &rows;
	check_rows(&rows);
	expect_row(&rows, BASE + (uint64_t)(at_kept_elsewhere_rax - sample_kept_elsewhere), &rule);
}

static void test_no_answer(void **state)
{
	EXPECT_NONE(returns_differ, sample_returns_differ);
	EXPECT_NONE(jump_table, at_jump_table_only);
	EXPECT_NONE(endless, sample_endless);
	EXPECT_NONE(traps, sample_traps);
	EXPECT_NONE(traps, at_traps_int3);
	EXPECT_NONE(traps, at_traps_hlt);
	EXPECT_NONE(other_stack, sample_other_stack);
	EXPECT_NONE(other_stack, at_other_stack_load);
	EXPECT_NONE(push_return, sample_push_return);
	EXPECT_NONE(push_return, at_push_return_below);
	EXPECT_NONE(push_return, at_push_return_odd);
	EXPECT_NONE(leaf, sample_leaf_end);
}

/* A way that is lost does not matter when another one is found. */
static void test_jump_table(void **state)
{
	EXPECT(jump_table, sample_jump_table, CFA(RSP, 8), SAVES(SAME, SAME));
	EXPECT(switch_case, sample_switch_case, CFA(RSP, 8), SAVES(SAME, SAME));
	EXPECT_NONE(switch_case, at_switch_case_none);
}

static void test_calls(void **state)
{
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct code code = make_code(sample_calls, sample_calls_end);
	const struct so_unwind_rule rule = { CFA(RSP, 16), SAVES(SAME, CFA), .rbx_off = -16 };
	uint64_t after = BASE + (uint64_t)(at_calls_after - sample_calls);
	struct effect_rows rows = { 0 };

	EXPECT(calls, at_calls_after, CFA(RSP, 16), SAVES(SAME, CFA), .rbx_off = -16);
	assert_int_equal(
		stack_effect__follow_return(*state, read_code, &code, after, BASE, BASE + code.size, &rows), 0);
	owner = &rows;
	check_rows(&rows);
	assert_int_equal(rows.rows[0].address, after - 1);
	expect_row(&rows, after - 1, &rule);
	expect_row(&rows, after, &rule);
}

static void test_call_without_return(void **state)
{
	struct code code = make_code(sample_no_return, sample_no_return_end);
	uint64_t next = BASE + (uint64_t)(at_no_return_next - sample_no_return);
	struct effect_rows rows = { 0 };

	EXPECT_NONE(no_return, sample_no_return);
	EXPECT_NONE(no_return, at_no_return_call);
	EXPECT_NONE(padded_call, sample_padded_call);
	EXPECT(padded_call, at_padded_call_other, CFA(RSP, 40), SAVES(SAME, SAME));
	EXPECT(no_return, at_no_return_next, CFA(RSP, 8), SAVES(SAME, SAME));
	assert_int_equal(
		stack_effect__follow_return(*state, read_code, &code, next, BASE, BASE + code.size, &rows),
		-ENOENT);
}

static void test_call_of_helper(void **state)
{
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct code code = make_code(sample_helper_call, sample_helper_call_end);
	const struct so_unwind_rule rule = { CFA(RSP, 8), SAVES(SAME, SAME) };
	uint64_t after = BASE + (uint64_t)(at_helper_call_after - sample_helper_call);
	struct effect_rows rows = { 0 };

	EXPECT(helper_call, sample_helper_call, CFA(RSP, 8), SAVES(SAME, SAME));
	assert_int_equal(
		stack_effect__follow_return(*state, read_code, &code, after, BASE, BASE + code.size, &rows), 0);
	owner = &rows;
	expect_row(&rows, after - 1, &rule);
	expect_row(&rows, after, &rule);
}

static void test_begins(void **state)
{
	struct code code = make_code(sample_begins, sample_begins_end);
	static const struct {
		const uint8_t *at;
		bool begins;
	} cases[] = {
		{ sample_begins + 8, true },	  { at_begins_finish, true },
		{ at_begins_returns, false },	  { at_begins_leaves, false },
		{ at_begins_behind_call, false }, { at_begins_behind_pointer, false },
		{ sample_begins, false }, /* nothing is known of what lies before it */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(stack_effect__is_begin(*state, read_code, &code,
							BASE + (uint64_t)(cases[i].at - sample_begins)),
				 cases[i].begins);
}

static void test_pops_to_memory(void **state)
{
	EXPECT(pops_to_memory, sample_pops_to_memory, CFA(RSP, 8), SAVES(SAME, SAME));
	EXPECT(pops_to_memory, at_pops_to_memory_body, CFA(RSP, 40), SAVES(CFA, CFA), .rbp_off = -16,
	       .rbx_off = -24);
	EXPECT(pops_to_memory, at_pops_to_memory_second, CFA(RSP, 32), SAVES(CFA, CFA), .rbp_off = -16,
	       .rbx_off = -24);
	EXPECT(pops_over_saved, sample_pops_over_saved, CFA(RSP, 8), SAVES(SAME, UNDEFINED));
	EXPECT_NONE(pops_over_saved, at_pops_over_saved_rsp);
	EXPECT_NONE(pops_over_saved, at_pops_over_saved_index);
}

static void test_frames_of_v8(void **state)
{
	EXPECT(tells_frame, sample_tells_frame, CFA(RSP, 8), SAVES(SAME, SAME));
	EXPECT(tells_frame, at_tells_frame_body, CFA(RBP, 16), SAVES(CFA, SAME), .rbp_off = -16);
	EXPECT(tells_frame, at_tells_frame_after, CFA(RBP, 16), SAVES(CFA, SAME), .rbp_off = -16);
	EXPECT(next_function, at_next_function_body, CFA(RBP, 16), SAVES(CFA, CFA), .rbp_off = -16,
	       .rbx_off = -24);
}

/* Followed from the function's begin, rsp is known as well as rbp: what callees leave in it is not. */
static void test_frame_pointer_first(void **state)
{
	struct code code = make_code(sample_tells_frame, sample_tells_frame_end);
	const struct so_unwind_rule rule = { CFA(RBP, 16), SAVES(CFA, SAME), .rbp_off = -16 };
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct effect_rows rows = { 0 };

	assert_int_equal(follow_code(*state, &code, sample_tells_frame, &rows), 0);
	owner = &rows;
	expect_row(&rows, BASE + (uint64_t)(at_tells_frame_after - sample_tells_frame), &rule);
}

/* The limits end before the jumps' target. */
static void test_tail_calls(void **state)
{
	struct code code = make_code(sample_tail_call, sample_tail_call_end);
	const struct so_unwind_rule rule = { CFA(RSP, 16), SAVES(SAME, CFA), .rbx_off = -16 };
	uint64_t body = BASE + (uint64_t)(at_tail_call_body - sample_tail_call);
	uint64_t bare = BASE + (uint64_t)(at_tail_call_bare - sample_tail_call);
	uint64_t end = BASE + (uint64_t)(at_tail_call_end - sample_tail_call);
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct effect_rows rows = { 0 };

	assert_int_equal(stack_effect__follow(*state, read_code, &code, bare, BASE, end, &rows), -ENOENT);
	assert_int_equal(stack_effect__follow(*state, read_code, &code, bare, BASE, BASE + code.size, &rows),
			 0);
	effect_rows__release(&rows);
	assert_int_equal(stack_effect__follow(*state, read_code, &code, body, BASE, end, &rows), 0);
	owner = &rows;
	expect_row(&rows, body, &rule);
}

/* More instructions than the budget before the return; and as many as it allows. */
static void test_budget(void **state)
{
	static uint8_t bytes[STACK_CODE_MAX_INSNS + 1];
	struct code code = { .bytes = bytes, .size = sizeof(bytes), .address = BASE };
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct effect_rows rows = { 0 };

	memset(bytes, 0x90, sizeof(bytes));
	bytes[sizeof(bytes) - 1] = 0xc3;
	assert_int_equal(follow_code(*state, &code, bytes, &rows), -ENOENT);
	assert_int_equal(follow_code(*state, &code, bytes + 1, &rows), 0);
	owner = &rows;
	assert_int_equal(rows.n, 1);
	assert_int_equal(rows.rows[0].length, STACK_CODE_MAX_INSNS);
}

/* Code at either end of the address space, and a reader that has nothing. */
static void test_ends_of_memory(void **state)
{
	static const uint8_t bytes[] = { 0x58, 0x5d, 0xc3 };
	struct code low = { .bytes = bytes, .size = sizeof(bytes), .address = 0 };
	struct code high = { .bytes = bytes, .size = sizeof(bytes), .address = UINT64_MAX - sizeof(bytes) };
	const struct so_unwind_rule rule = { CFA(RSP, 24), SAVES(CFA, SAME), .rbp_off = -16 };
	struct effect_rows rows = { 0 };

	assert_int_equal(follow_code(*state, &low, bytes, &rows), 0);
	expect_row(&rows, 0, &rule);
	effect_rows__release(&rows);
	assert_int_equal(follow_code(*state, &high, bytes, &rows), 0);
	expect_row(&rows, high.address, &rule);
	effect_rows__release(&rows);
	low.size = 0;
	assert_int_equal(stack_effect__follow(*state, read_code, &low, 0, 0, UINT64_MAX, &rows), -ENOENT);
	assert_int_equal(stack_effect__follow(*state, read_code, &high, high.address, 5, 5, &rows), -ENOENT);
}

/* A function and its state while it is executed, one instruction after another. */
struct live {
	struct effect_reader *reader;
	struct code code;
	struct frame {
		uint64_t cfa, rbp, rbx, ra;
	} frames[8]; /* outermost first */
	unsigned n_frames, n_checked, n_unanswered, n_wrong;
	uint64_t call_to;         /* return address of the call that was just met, 0 for none */
	struct effect_rows first; /* rules as followed from the first instruction */
};

static struct live live;

static uint64_t read_word(uint64_t address)
{
	uint64_t value;

	memcpy(&value, (const void *)(uintptr_t)address, sizeof(value)); /* NOLINT: the stack of this thread */
	return value;
}

static uint64_t dwarf_reg(const greg_t *g, uint8_t reg)
{
	static const uint8_t places[SO_NREGS] = {
		[SO_REG_RAX] = REG_RAX, [SO_REG_RDX] = REG_RDX, [SO_REG_RCX] = REG_RCX, [SO_REG_RBX] = REG_RBX,
		[SO_REG_RSI] = REG_RSI, [SO_REG_RDI] = REG_RDI, [SO_REG_RBP] = REG_RBP, [SO_REG_RSP] = REG_RSP,
		[SO_REG_R8] = REG_R8,   [SO_REG_R9] = REG_R9,   [SO_REG_R10] = REG_R10, [SO_REG_R11] = REG_R11,
		[SO_REG_R12] = REG_R12, [SO_REG_R13] = REG_R13, [SO_REG_R14] = REG_R14, [SO_REG_R15] = REG_R15,
	};

	return (uint64_t)g[places[reg]];
}

/* The caller's register by the rule; what is said to be lost is whatever is wanted. */
static uint64_t saved(const greg_t *g, unsigned kind, int off, uint8_t reg, uint64_t cfa, uint64_t wanted)
{
	switch (kind) {
	case SO_SAVE_SAME:
		return dwarf_reg(g, reg);
	case SO_SAVE_CFA:
		return read_word(cfa + (uint64_t)(int64_t)off);
	case SO_SAVE_RBP:
		return read_word(dwarf_reg(g, SO_REG_RBP) + (uint64_t)(int64_t)off);
	default:
		return wanted;
	}
}

static bool rule_is_right(const greg_t *g, const struct so_unwind_rule *rule, const struct frame *frame)
{
	uint64_t cfa = dwarf_reg(g, rule->cfa_reg) + (uint64_t)(int64_t)rule->cfa_off;

	if (rule->cfa_kind == SO_CFA_DEREF)
		cfa = read_word(cfa) + (uint64_t)(int64_t)rule->cfa_off2;
	return cfa == frame->cfa && read_word(cfa - 8) == frame->ra &&
	       saved(g, rule->saves & 15, rule->rbp_off, SO_REG_RBP, cfa, frame->rbp) == frame->rbp &&
	       saved(g, rule->saves >> 4, rule->rbx_off, SO_REG_RBX, cfa, frame->rbx) == frame->rbx;
}

/* Notes calls and returns: a frame begins when a call has just been executed, and ends when rsp has reached its CFA. */
static void keep_frames(const greg_t *g)
{
	uint64_t pc = (uint64_t)g[REG_RIP], rsp = (uint64_t)g[REG_RSP];
	const uint8_t *code = live.code.bytes + (pc - live.code.address);

	while (live.n_frames && rsp >= live.frames[live.n_frames - 1].cfa)
		live.n_frames--;
	if (!live.n_frames || (live.call_to && live.call_to != pc)) {
		assert_true(live.n_frames < 8);
		live.frames[live.n_frames++] = (struct frame){ .cfa = rsp + 8,
							       .rbp = (uint64_t)g[REG_RBP],
							       .rbx = (uint64_t)g[REG_RBX],
							       .ra = read_word(rsp) };
	}
	live.call_to = code[0] == 0xe8 ? pc + 5 : 0;
}

/* Where the rules of `rows` fail at this step; none for it is no failure. */
static void check_rule(const greg_t *g, const struct effect_rows *rows, const char *from)
{
	uint64_t pc = (uint64_t)g[REG_RIP];
	const struct effect_row *row = effect_rows__find(rows, pc);

	if (!row || rule_is_right(g, &row->rule, &live.frames[live.n_frames - 1]))
		return;
	live.n_wrong++;
	print_error("wrong at +0x%x, followed from %s: kind %u reg %u %+d %+d rbp %u %+d rbx %u %+d\n",
		    (unsigned)(pc - live.code.address), from, row->rule.cfa_kind, row->rule.cfa_reg,
		    row->rule.cfa_off, row->rule.cfa_off2, row->rule.saves & 15, row->rule.rbp_off,
		    row->rule.saves >> 4, row->rule.rbx_off);
}

static void check_step(const greg_t *g)
{
	uint64_t pc = (uint64_t)g[REG_RIP], end = live.code.address + live.code.size;
	struct effect_rows rows = { 0 };

	keep_frames(g);
	live.n_checked++;
	if (stack_effect__follow(live.reader, read_code, &live.code, pc, live.code.address, end, &rows))
		live.n_unanswered++;
	check_rule(g, &rows, "there");
	if (live.n_frames == 1)
		check_rule(g, &live.first, "the start");
	effect_rows__release(&rows);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];

	if (pc - live.code.address < live.code.size)
		check_step(uc->uc_mcontext.gregs);
}

#define TRAP_FLAG 0x100

static void set_trap_flag(bool on)
{
	/* Below the red zone: the compiler does not see the push. */
	if (on)
		__asm__ volatile(
			"lea -128(%%rsp), %%rsp; pushfq; orq %0, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::"i"(
				TRAP_FLAG)
			: "cc", "memory");
	else
		__asm__ volatile(
			"lea -128(%%rsp), %%rsp; pushfq; andq %0, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::"i"(
				~TRAP_FLAG)
			: "cc", "memory");
}

static void run_stepping(void *code, uint64_t argument)
{
	uint64_t (*function)(uint64_t);

	memcpy(&function, &code, sizeof(function));
	set_trap_flag(true);
	function(argument);
	set_trap_flag(false);
}

static void *map_code(const uint8_t *start, size_t size)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	assert_true(size <= 4096);
	memcpy(page, start, size);
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	return page;
}

/* Runs the sample with a trap at each instruction and holds the rules against the registers and the stack. */
static void check_live(struct effect_reader *reader, const uint8_t *start, const uint8_t *end)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, before;
	void *page = map_code(start, (size_t)(end - start));

	live = (struct live){
		.reader = reader,
		.code = { .bytes = page, .size = (size_t)(end - start), .address = (uintptr_t)page }
	};
	assert_int_equal(stack_effect__follow(reader, read_code, &live.code, live.code.address,
					      live.code.address, live.code.address + live.code.size,
					      &live.first),
			 0);
	check_rows(&live.first);
	assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
	for (uint64_t argument = 0; argument < 3; argument++)
		run_stepping(page, argument + 5);
	run_stepping(page, 0x7fffffff & 24);
	assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
	effect_rows__release(&live.first);
	munmap(page, 4096);
	assert_int_equal(live.n_wrong, 0);
	assert_true(live.n_checked >= 4);
	assert_true(live.n_unanswered * 2 < live.n_checked);
}

/*
 * No answer is given where the way back is in a register that may as well carry an argument (realign_stored), where a
 * word that is loaded later may not be stored yet (realign_variable), and where rsp is no multiple of 8 (flags).
 */
#define LIVE_TEST(name)                                                                        \
	static void test_live_##name(void **state)                                             \
	{                                                                                      \
		check_live(*state, sample_##name, sample_##name##_end);                        \
		print_message("%-20s %u steps, %u without an answer\n", #name, live.n_checked, \
			      live.n_unanswered);                                              \
	}
RUN_SAMPLES(LIVE_TEST)

#define LIVE_ENTRY(name) cmocka_unit_test(test_live_##name),

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pushes),
					    cmocka_unit_test(test_frames),
					    cmocka_unit_test(test_realigned_frames),
					    cmocka_unit_test(test_lost_registers),
					    cmocka_unit_test(test_restored_early),
					    cmocka_unit_test(test_no_answer),
					    cmocka_unit_test(test_jump_table),
					    cmocka_unit_test(test_calls),
					    cmocka_unit_test(test_call_without_return),
					    cmocka_unit_test(test_call_of_helper),
					    cmocka_unit_test(test_begins),
					    cmocka_unit_test(test_pops_to_memory),
					    cmocka_unit_test(test_frames_of_v8),
					    cmocka_unit_test(test_frame_pointer_first),
					    cmocka_unit_test(test_tail_calls),
					    cmocka_unit_test(test_budget),
					    cmocka_unit_test(test_ends_of_memory),
					    RUN_SAMPLES(LIVE_ENTRY) };

	return cmocka_run_group_tests(tests, make_reader, free_reader);
}
