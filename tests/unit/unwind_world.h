/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * include/stakeout/unwinder.h on hand-made stacks and tables. Function i of the text is FUNCTION_BYTES long and has one
 * rule; the stack is an array of words, readable from world.low to world.high. Each test says the frames and the cause
 * exactly.
 */
#ifndef STAKEOUT_TESTS_UNWIND_WORLD_H
#define STAKEOUT_TESTS_UNWIND_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/unwind/table_pool.h"
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
#define LEAF(i)       SO_FRAME(FILE_NUMBER, AT(i) - BIAS)
#define CALLER(i)     SO_FRAME(FILE_NUMBER, RET(i) - BIAS - 1)
#define TRAMPOLINE(i) SO_FRAME(FILE_NUMBER, RET(i) - BIAS)

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
	uint64_t code[2];   /* readable too, at code_at */
	uint64_t code_at;
	uint32_t n_mappings;
};

static struct world *w;

static inline bool read_world(void *context, void *dst, uint32_t bytes, uint64_t address)
{
	assert_true(bytes <= UW_WINDOW_BYTES);
	if (w->code_at && bytes <= sizeof(w->code) && address - w->code_at <= sizeof(w->code) - bytes) {
		memcpy(dst, (const char *)w->code + (address - w->code_at), bytes);
		return true;
	}
	if (address < w->low || address >= w->high || bytes > w->high - address)
		return false;
	memcpy(dst, (const char *)w->stack + (address - STACK), bytes);
	return true;
}

static inline int set_up(void **state)
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

static inline int tear_down(void **state)
{
	table_pool__free(w->pool);
	sampler__free(w->sampler);
	free(w);
	return 0;
}

static inline void add_mapping(struct so_mapping m)
{
	sampler__mappings(w->sampler)[w->n_mappings++] = m;
}

/* One function a rule, in one mapping of one file. */
static inline void add_text(const struct so_unwind_rule *rules, uint32_t n)
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
	free(pieces.rules);
	free(t.index);
	free(t.rows);
}

#define TEXT(...)                                                              \
	do {                                                                   \
		static const struct so_unwind_rule rules_[] = { __VA_ARGS__ }; \
		add_text(rules_, sizeof(rules_) / sizeof(rules_[0]));          \
	} while (0)

/* Stack words from `off` bytes above its beginning on. */
static inline void put(uint32_t off, uint64_t value)
{
	memcpy((char *)w->stack + off, &value, sizeof(value));
}

static inline void set_reg(enum so_reg reg, uint64_t value)
{
	w->u.regs[reg] = value;
}

static inline void unwind(uint64_t pc, uint32_t sp_off)
{
	set_reg(SO_REG_RSP, STACK + sp_off);
	user_space__unwind(&w->u, pc, w->n_mappings);
}

static inline void expect_frames(enum so_truncation cause, const uint64_t *want, uint32_t n)
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

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

#endif
