// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/profile/accumulator.h"

static const char python[16] = "python3", worker[16] = "worker-0";

static struct stack *make_stack(uint64_t hash, uint16_t n_user, uint16_t n_kernel, uint16_t cause,
				uint16_t flags)
{
	const struct so_stack_record record = { .type = SO_RECORD_STACK,
						.n_user = n_user,
						.n_kernel = n_kernel,
						.hash = hash,
						.cause = cause,
						.flags = flags };
	uint64_t frames[64];
	struct stack *stack;

	for (unsigned i = 0; i < 64; i++)
		frames[i] = hash + i;
	stack = stack__new(&record, frames, NULL);
	assert_non_null(stack);
	return stack;
}

static int add_stack(struct accumulator *acc, uint64_t hash, uint16_t cause, uint16_t flags)
{
	struct stack *stack = make_stack(hash, 3, 2, cause, flags);
	int ret = accumulator__add_stack(acc, stack);

	stack__unref(stack);
	return ret;
}

static void test_stack_copy(void **state)
{
	struct stack *stack = make_stack(77, 3, 2, SO_TRUNC_DEPTH, 0);

	assert_int_equal(stack__frames(stack), 5);
	assert_int_equal(stack->record.cause, SO_TRUNC_DEPTH);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(stack->frames[i], 77 + i);
	stack__unref(stack);
	stack = make_stack(78, 0, 0, 0, 0);
	assert_int_equal(stack__frames(stack), 0);
	stack__unref(stack);
}

static void test_counts(void **state)
{
	struct accumulator acc = { 0 };

	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 1, 0 }),
			 -ENOENT);
	assert_false(accumulator__has_stack(&acc, 100));
	assert_int_equal(add_stack(&acc, 100, SO_TRUNC_NONE, 0), 0);
	assert_int_equal(add_stack(&acc, 200, SO_TRUNC_NO_RULES, SO_STACK_FRAME_POINTER), 0);
	assert_int_equal(add_stack(&acc, 100, SO_TRUNC_NONE, 0), 0);
	assert_true(accumulator__has_stack(&acc, 100));
	assert_int_equal(acc.n_stacks, 2);

	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 3, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 4, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 200, 5, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, worker, 100, 6, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 3, python, 100, 7, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 2, 2, python, 100, 8, 0 }), 0);
	assert_int_equal(acc.n_counters, 5);
	assert_int_equal(acc.counters[0].count, 7);
	assert_int_equal(acc.counters[1].stack, 1);
	assert_memory_equal(acc.counters[2].comm, worker, 16);
	assert_int_equal(acc.samples, 33);
	assert_int_equal(acc.truncated[SO_TRUNC_NONE], 28);
	assert_int_equal(acc.truncated[SO_TRUNC_NO_RULES], 5);
	assert_int_equal(acc.frame_pointer, 5);
	accumulator__release(&acc);
	assert_int_equal(acc.samples, 0);
	assert_null(acc.stacks);
}

/* A cause that this version does not know must not be written beyond the array. */
static void test_unknown_cause(void **state)
{
	struct accumulator acc = { 0 };

	assert_int_equal(add_stack(&acc, 1, 65535, 0), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 1, python, 1, 2, 0 }), 0);
	assert_int_equal(acc.truncated[SO_TRUNC_TABLE_LOOKUP], 2);
	assert_int_equal(acc.samples, 2);
	accumulator__release(&acc);
}

static void test_many(void **state)
{
	struct accumulator acc = { 0 };

	for (unsigned i = 0; i < 3000; i++)
		assert_int_equal(add_stack(&acc, i, SO_TRUNC_NONE, 0), 0);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 3000; i++)
			for (unsigned tid = 0; tid < 3; tid++)
				assert_int_equal(
					accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 9, tid,
										       python, i, 1, 0 }),
					0);
	assert_int_equal(acc.n_counters, 9000);
	assert_int_equal(acc.samples, 18000);
	for (unsigned i = 0; i < 9000; i++)
		assert_int_equal(acc.counters[i].count, 2);
	accumulator__release(&acc);
}

/* Held bytes never pass the bound by more than one array's growth, and nothing is half added. */
static void test_bound(void **state)
{
	struct accumulator acc = { .max_bytes = 64 << 10 };
	size_t stacks = 0, counters = 0;
	int ret = 0;

	while (!(ret = add_stack(&acc, stacks, SO_TRUNC_NONE, 0)))
		stacks++;
	assert_int_equal(ret, -ENOSPC);
	assert_int_equal(acc.n_stacks, stacks);
	assert_true(stacks > 100 && stacks < 2000);
	assert_false(accumulator__has_stack(&acc, stacks));
	assert_true(acc.bytes <= acc.max_bytes + 4096 * sizeof(void *));
	/* One that is there already is none to refuse. */
	assert_int_equal(add_stack(&acc, 0, SO_TRUNC_NONE, 0), 0);
	accumulator__release(&acc);

	acc.max_bytes = 64 << 10;
	assert_int_equal(add_stack(&acc, 0, SO_TRUNC_NONE, 0), 0);
	while (!(ret = accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, counters, python, 0, 1, 0 })))
		counters++;
	assert_int_equal(ret, -ENOSPC);
	assert_int_equal(acc.n_counters, counters);
	assert_int_equal(acc.samples, counters);
	assert_int_equal(acc.truncated[SO_TRUNC_NONE], counters);
	assert_true(counters > 100 && counters < 2000);
	/* A counter that is there goes on counting. */
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 0, python, 0, 1, 0 }), 0);
	accumulator__release(&acc);
}

static void test_copy(void **state)
{
	struct accumulator acc = { 0 }, copy = { .samples = 99 };

	assert_int_equal(accumulator__copy(&acc, &copy), 0);
	assert_int_equal(copy.samples, 0);
	assert_int_equal(add_stack(&acc, 100, SO_TRUNC_NONE, 0), 0);
	assert_int_equal(add_stack(&acc, 200, SO_TRUNC_DEPTH, SO_STACK_FRAME_POINTER), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 200, 5, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, worker, 100, 6, 0 }), 0);
	assert_int_equal(accumulator__copy(&acc, &copy), 0);
	accumulator__release(&acc);
	assert_int_equal(copy.samples, 11);
	assert_int_equal(copy.frame_pointer, 5);
	assert_int_equal(copy.truncated[SO_TRUNC_DEPTH], 5);
	assert_int_equal(copy.n_stacks, 2);
	assert_int_equal(copy.stacks[1]->frames[4], 204);
	assert_int_equal(copy.n_counters, 2);
	assert_int_equal(copy.counters[0].stack, 1);
	assert_memory_equal(copy.counters[1].comm, worker, 16);
	accumulator__release(&copy);
}

/* Equal stacks and counters become one; the sums of what is forgotten stay. */
static void test_merge(void **state)
{
	struct accumulator acc = { 0 }, older = { 0 }, figures = { 0 };

	assert_int_equal(add_stack(&older, 100, SO_TRUNC_NONE, 0), 0);
	assert_int_equal(add_stack(&older, 200, SO_TRUNC_DEPTH, SO_STACK_FRAME_POINTER), 0);
	assert_int_equal(accumulator__add(&older, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 5, 0 }),
			 0);
	assert_int_equal(accumulator__add(&older, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 200, 6, 0 }),
			 0);
	assert_int_equal(add_stack(&acc, 300, SO_TRUNC_NONE, SO_STACK_GIL), 0);
	assert_int_equal(add_stack(&acc, 100, SO_TRUNC_NONE, 0), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 7, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 3, python, 100, 8, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 300, 9, 0 }), 0);
	accumulator__add_figures(&figures, &older);
	accumulator__add_figures(&figures, &acc);
	assert_int_equal(accumulator__merge(&acc, &older), 0);
	accumulator__release(&older);
	assert_int_equal(acc.n_stacks, 3);
	assert_int_equal(acc.n_counters, 4);
	assert_int_equal(acc.counters[0].count, 12);
	assert_int_equal(acc.counters[1].count, 8);
	assert_int_equal(acc.samples, 35);
	assert_int_equal(figures.samples, 35);
	assert_int_equal(figures.n_stacks, 0);
	assert_memory_equal(figures.truncated, acc.truncated, sizeof(acc.truncated));
	assert_int_equal(figures.truncated[SO_TRUNC_DEPTH], 6);
	assert_int_equal(figures.frame_pointer, acc.frame_pointer);
	assert_int_equal(figures.frame_pointer, 6);
	assert_int_equal(figures.gil, 9);
	accumulator__release(&acc);
}

/* What does not fit is left out with its stack; what is there goes on counting, wherever it stands in the other. */
static void test_merge_beyond_the_bound(void **state)
{
	struct accumulator acc = { .max_bytes = 64 << 10 }, part = { 0 };
	uint64_t sum = 0;

	assert_int_equal(add_stack(&acc, 1, SO_TRUNC_NONE, 0), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 1, 1000, 0 }),
			 0);
	for (unsigned i = 0; i < 2000; i++) {
		assert_int_equal(add_stack(&part, 100 + i, SO_TRUNC_NONE, 0), 0);
		assert_int_equal(
			accumulator__add(&part, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100 + i, 3, 0 }),
			0);
	}
	assert_int_equal(add_stack(&part, 1, SO_TRUNC_NONE, 0), 0);
	assert_int_equal(accumulator__add(&part, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 1, 500, 0 }),
			 0);
	for (unsigned round = 1; round <= 2; round++) {
		assert_int_equal(accumulator__merge(&acc, &part), -ENOSPC);
		assert_in_range(acc.n_counters, 100, 1000);
		assert_int_equal(acc.n_stacks, acc.n_counters);
		assert_int_equal(acc.counters[0].count, 1000 + round * 500);
		assert_int_equal(acc.counters[1].count, round * 3);
		assert_int_equal(acc.samples, 1000 + round * (500 + 3 * (acc.n_counters - 1)));
	}
	for (size_t i = 0; i < acc.n_counters; i++)
		sum += acc.counters[i].count;
	assert_int_equal(sum, acc.samples);
	accumulator__release(&acc);
	accumulator__release(&part);
}

/* The latest samples of a counter are those of one window, the last that had any. */
static void test_windows(void **state)
{
	struct accumulator acc = { 0 };

	assert_int_equal(add_stack(&acc, 100, 0, 0), 0);
	assert_int_equal(add_stack(&acc, 200, 0, 0), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 1000, 0 }),
			 0);
	acc.window++;
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 3, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 200, 5, 0 }), 0);
	assert_int_equal(accumulator__add(&acc, &(struct stack_sample){ SAMPLE_CPU, 1, 2, python, 100, 1, 0 }), 0);
	acc.window++;
	assert_int_equal(acc.n_counters, 2);
	assert_int_equal(acc.counters[0].count, 1004);
	assert_int_equal(acc.counters[0].latest, 4);
	assert_int_equal(acc.counters[0].window, 1);
	assert_int_equal(acc.counters[1].latest, 5);
	accumulator__release(&acc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_copy),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_unknown_cause),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_merge_beyond_the_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
