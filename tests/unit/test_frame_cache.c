// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached frames over many walks of the same mappings: they say what a walk without them says, whatever was before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/random_unit.h"
#include "tests/unit/unwind_world.h"

#define FUNCTIONS  200
#define MAX_FRAMES 60
#define RUN        7

static struct so_frame_cache cache;
static struct so_unwind cached;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(unit() * n) % n;
}

/* Function 0 is outermost; i takes 8 * (1 + i % 9) bytes of the stack, every seventh by rbp, which it saves. */
static void add_functions(void)
{
	static struct so_unwind_rule rules[FUNCTIONS];

	memset(rules, 0, sizeof(rules));
	rules[0] = (struct so_unwind_rule)END;
	for (uint32_t i = 1; i < FUNCTIONS; i++) {
		if (i % 7)
			rules[i] = (struct so_unwind_rule)RSP(8 * (1 + i % 9));
		else
			rules[i] = (struct so_unwind_rule){ CFA(RBP, 16), RBP_AT(-16) };
	}
	add_text(rules, FUNCTIONS);
}

static uint64_t inside(uint32_t function)
{
	return BIAS + TEXT_VADDR + function * FUNCTION_BYTES + 1 + below(FUNCTION_BYTES - 1);
}

/* A stack of any functions from its outer end on, of which the outermost `kept` frames are left as they are. */
static uint64_t make_stack(uint32_t *functions, uint64_t *returns, uint32_t n, uint32_t kept, uint32_t *sp,
			   uint64_t *bp)
{
	uint32_t at = STACK_WORDS * 8 - 1024;

	*bp = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (i >= kept) {
			functions[i] = i ? 1 + below(FUNCTIONS - 1) : 0;
			returns[i] = inside(functions[i]);
		}
		if (!i)
			continue;
		put(at - 8, returns[i - 1]);
		if (functions[i] % 7) {
			at -= 8 * (1 + functions[i] % 9);
		} else {
			put(at - 16, *bp);
			*bp = STACK + at - 16;
			at -= 16 + 8 * below(5);
		}
	}
	*sp = at;
	return returns[n - 1];
}

static void walk(struct so_unwind *u, uint64_t pc, uint32_t sp, uint64_t bp, uint32_t run)
{
	memset(u->regs, 0, sizeof(u->regs));
	u->regs[SO_REG_RSP] = STACK + sp;
	u->regs[SO_REG_RBP] = bp;
	user_space__walk(u, pc, w->n_mappings, run);
}

static void expect_same(void)
{
	assert_int_equal(cached.cause, w->u.cause);
	assert_int_equal(cached.n, w->u.n);
	assert_memory_equal(cached.frames, w->u.frames, w->u.n * sizeof(w->u.frames[0]));
	assert_true(cached.hash == w->u.hash);
}

/* More different addresses than there are entries, so that the oldest are written over many times. */
static void test_many_stacks(void **state)
{
	uint32_t functions[MAX_FRAMES], n = 1, kept, sp, whole = 0;
	uint64_t returns[MAX_FRAMES], bp;

	add_functions();
	user_space.cache = &cache;
	memset(&cache, 0xa5, sizeof(cache));
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t pc;

		kept = i ? below(n + 1) : 0;
		n = (kept ?: 1) + below(MAX_FRAMES - (kept ?: 1) + 1);
		pc = make_stack(functions, returns, n, kept, &sp, &bp);
		walk(&w->u, pc, sp, bp, 0);
		walk(&cached, pc, sp, bp, RUN);
		expect_same();
		whole += w->u.cause == SO_TRUNC_NONE && w->u.n == n;
	}
	assert_true(whole > 19000);
	assert_true(cache.next - 0xa5a5a5a5u > 2 * UW_CACHE_ENTRIES);
}

/* A walk made before is made by the order of its frames: neither index nor tables are needed but for the leaf. */
static void test_order(void **state)
{
	uint32_t functions[MAX_FRAMES], sp;
	uint64_t returns[MAX_FRAMES], bp, pc;
	__u16 leaf;

	add_functions();
	user_space.cache = &cache;
	memset(&cache, 0, sizeof(cache));
	pc = make_stack(functions, returns, MAX_FRAMES, 0, &sp, &bp);
	walk(&w->u, pc, sp, bp, 0);
	walk(&cached, pc, sp, bp, RUN);
	expect_same();
	leaf = uw_cache_index(&cache, pc)[0];
	memset(cache.index, 0xff, sizeof(cache.index));
	uw_cache_index(&cache, pc)[0] = leaf;
	w->n_mappings = 0;
	walk(&cached, pc, sp, bp, RUN);
	expect_same();
	walk(&cached, pc, sp, bp, RUN + 1);
	assert_int_equal(cached.cause, SO_TRUNC_NO_MAPPING);
}

/* The frames are the same and lie where they lay, but another of the words on the stack: that one counts. */
static void test_changed_stack(void **state)
{
	uint32_t functions[MAX_FRAMES], sp;
	uint64_t returns[MAX_FRAMES], bp, pc;

	add_functions();
	user_space.cache = &cache;
	memset(&cache, 0, sizeof(cache));
	pc = make_stack(functions, returns, MAX_FRAMES, 0, &sp, &bp);
	walk(&cached, pc, sp, bp, RUN);
	for (uint32_t at = sp; at < STACK_WORDS * 8; at += 8) {
		uint64_t old = w->stack[at / 8];

		w->stack[at / 8] ^= 1ull << below(20);
		walk(&w->u, pc, sp, bp, 0);
		walk(&cached, pc, sp, bp, RUN);
		expect_same();
		w->stack[at / 8] = old;
	}
}

/* Other mappings at the same addresses have another number. */
static void test_other_run(void **state)
{
	const uint64_t first = AT(1);

	TEXT(END, RSP(8), RSP(24));
	user_space.cache = &cache;
	memset(&cache, 0, sizeof(cache));
	put(0, RET(2));
	put(8, RET(0));
	put(24, RET(0));
	walk(&cached, first, 0, 0, RUN);
	assert_int_equal(cached.n, 3);
	sampler__mappings(w->sampler)[0].bias += FUNCTION_BYTES;
	walk(&w->u, first, 0, 0, 0);
	walk(&cached, first, 0, 0, RUN + 1);
	expect_same();
	assert_true(cached.frames[0] != LEAF(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_stacks),
		TEST(order),
		TEST(changed_stack),
		TEST(other_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
