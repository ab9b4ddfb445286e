// SPDX-License-Identifier: GPL-2.0-or-later
/* The chosen pages of a target: the latest touch counts, and their weights add up to what was touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "daemon/memory/live_pages.h"

#define SALT  0x123456789abcdefull
#define TGID  4711
#define PAGES 200000

static struct stack *stack_of(uint64_t hash, unsigned frames)
{
	static uint64_t room[SO_MAX_FRAMES];
	const struct so_stack_record record = { .type = SO_RECORD_STACK, .hash = hash, .n_user = (uint16_t)frames };

	return stack__new(&record, room, NULL);
}

static struct so_page_record record_of(uint64_t page, uint32_t order, uint32_t threshold)
{
	return (struct so_page_record){ .type = SO_RECORD_PAGE,
					.tgid = TGID,
					.tid = TGID,
					.order = order,
					.threshold = threshold,
					.address = page << SO_PAGE_SHIFT,
					.when_ns = page,
					.comm = "test" };
}

static double weight_of_all(const struct live_pages *l)
{
	double sum = 0;

	for (size_t i = 0; i < l->n; i++)
		sum += live_pages__weight(l->pages[i].below);
	return sum;
}

/* Within five standard errors of a sum of pages that are each worth so much at most. */
static void assert_about(double sum, double truth, double page_bytes)
{
	assert_true(fabs(sum - truth) < 5 * sqrt(truth * page_bytes));
}

static void weights_add_up(void **state)
{
	struct live_pages l = { .n = 0 };
	struct stack *stack = stack_of(1, 3);
	double truth = PAGES * 4096.0;
	uint32_t threshold = SO_PAGE_MAX_THRESHOLD / 4;

	for (uint64_t page = 0; page < PAGES; page++) {
		struct so_page_record r = record_of(0x7f0000000 + page, 0, threshold);

		live_pages__touch(&l, SALT, threshold, &r, stack);
	}
	assert_in_range(l.n, PAGES / 16 - 600, PAGES / 16 + 600);
	assert_about(weight_of_all(&l), truth, live_pages__weight(threshold));
	/* Fewer are followed, each worth more. */
	for (int i = 0; i < 4; i++) {
		threshold /= 2;
		assert_int_equal(live_pages__lower(&l, threshold), 0);
		assert_about(weight_of_all(&l), truth, live_pages__weight(threshold));
	}
	assert_in_range(l.n, PAGES / 256 - 150, PAGES / 256 + 150);
	live_pages__release(&l);
	stack__unref(stack);
}

/* 2 MiB at a time, as a huge page's fault says it, and the same by pages of 4 KiB. */
static void a_huge_page_is_as_many(void **state)
{
	struct live_pages huge = { .n = 0 }, small = { .n = 0 };
	struct stack *stack = stack_of(1, 3);

	for (uint64_t page = 0x7f0000000; page < 0x7f0000000 + 64 * 512; page++) {
		struct so_page_record r = record_of(page, 0, SO_PAGE_MAX_THRESHOLD);

		live_pages__touch(&small, SALT, SO_PAGE_MAX_THRESHOLD, &r, stack);
		r = record_of(page, SO_HUGE_ORDER, SO_PAGE_MAX_THRESHOLD);
		if (page % 512 == 0)
			live_pages__touch(&huge, SALT, SO_PAGE_MAX_THRESHOLD, &r, stack);
	}
	assert_true(small.n > 0);
	assert_int_equal(huge.n, small.n);
	assert_about(weight_of_all(&huge), 64 * 512 * 4096.0, live_pages__weight(SO_PAGE_MAX_THRESHOLD));
	/* What no kernel side sends. */
	struct so_page_record wrong = record_of(0, SO_PAGE_ORDER_MAX + 1, SO_PAGE_MAX_THRESHOLD);
	live_pages__touch(&huge, SALT, SO_PAGE_MAX_THRESHOLD, &wrong, stack);
	assert_int_equal(huge.n, small.n);
	live_pages__release(&huge);
	live_pages__release(&small);
	stack__unref(stack);
}

static bool is_even(void *context, uint32_t tgid)
{
	(*(unsigned *)context)++;
	return tgid % 2 == 0;
}

static void pages_of_the_dead_are_forgotten(void **state)
{
	struct live_pages l = { .n = 0 };
	struct stack *stacks[2] = { stack_of(1, 3), stack_of(2, 5) };
	unsigned asked = 0;
	size_t before;

	for (uint64_t page = 0; page < 1000; page++) {
		struct so_page_record r = record_of(page, 0, SO_PAGE_MAX_THRESHOLD);

		r.tgid = 100 + page % 2;
		live_pages__touch(&l, SALT, SO_PAGE_MAX_THRESHOLD, &r, stacks[page % 2]);
	}
	before = l.n;
	assert_int_equal(l.n_stacks, 2);
	assert_int_equal(live_pages__keep(&l, is_even, &asked), 0);
	assert_in_range(l.n, 1, before - 1);
	assert_int_equal(l.n_stacks, 1);
	for (size_t i = 0; i < l.n; i++)
		assert_int_equal(l.pages[i].tgid, 100);
	/* All live: nothing changes. */
	before = l.n;
	assert_int_equal(live_pages__keep(&l, is_even, &asked), 0);
	assert_int_equal(l.n, before);
	live_pages__release(&l);
	stack__unref(stacks[0]);
	stack__unref(stacks[1]);
}

static void the_latest_touch_counts(void **state)
{
	struct live_pages l = { .n = 0 }, copy;
	struct stack *first = stack_of(1, 3), *second = stack_of(2, 5);
	struct so_page_record r;

	for (uint64_t page = 0; page < 100; page++) {
		r = record_of(page, 0, SO_PAGE_MAX_THRESHOLD);
		live_pages__touch(&l, SALT, SO_PAGE_MAX_THRESHOLD, &r, first);
	}
	assert_int_equal(l.n_stacks, 1);
	size_t n = l.n;
	for (uint64_t page = 0; page < 100; page++) {
		r = record_of(page, 0, SO_PAGE_MAX_THRESHOLD);
		r.when_ns = 1000;
		live_pages__touch(&l, SALT, SO_PAGE_MAX_THRESHOLD, &r, second);
	}
	assert_int_equal(l.n, n);
	for (size_t i = 0; i < l.n; i++) {
		assert_int_equal(l.pages[i].when_ns, 1000);
		assert_int_equal(l.stacks[l.pages[i].stack]->record.hash, 2);
	}
	assert_int_equal(live_pages__copy(&l, &copy), 0);
	live_pages__release(&l);
	assert_int_equal(copy.n, n);
	assert_int_equal(copy.stacks[copy.pages[0].stack]->record.hash, 2);
	/* The one that none of the pages has goes when they are gone through. */
	assert_int_equal(live_pages__lower(&copy, SO_PAGE_MAX_THRESHOLD), 0);
	assert_int_equal(copy.n_stacks, 1);
	live_pages__release(&copy);
	stack__unref(first);
	stack__unref(second);
}

/* One that was chosen by a threshold that has been lowered since is not followed any more. */
static void what_is_not_followed_is_not_kept(void **state)
{
	struct live_pages l = { .n = 0 };
	struct stack *stack = stack_of(1, 3);
	uint32_t follow = SO_PAGE_MAX_THRESHOLD / 64;

	for (uint64_t page = 0; page < PAGES; page++) {
		struct so_page_record r = record_of(page, 0, SO_PAGE_MAX_THRESHOLD);

		live_pages__touch(&l, SALT, follow, &r, stack);
	}
	for (size_t i = 0; i < l.n; i++)
		assert_true(l.pages[i].hash < follow);
	assert_about(weight_of_all(&l), PAGES * 4096.0, live_pages__weight(follow));
	live_pages__release(&l);
	stack__unref(stack);
}

static void it_says_when_it_is_full(void **state)
{
	struct live_pages l = { .n = 0 };
	struct stack *stack;
	uint64_t page = 0;

	assert_false(live_pages__is_full(&l));
	/* By stacks, which a hostile program makes as large and as different as it likes. */
	for (uint64_t hash = 1; !live_pages__is_full(&l); hash++) {
		assert_true(hash < 20000);
		stack = stack_of(hash, SO_MAX_USER_FRAMES);
		for (int i = 0; i < 8; i++, page++) {
			struct so_page_record r = record_of(page, 0, SO_PAGE_MAX_THRESHOLD);

			live_pages__touch(&l, SALT, SO_PAGE_MAX_THRESHOLD, &r, stack);
		}
		stack__unref(stack);
	}
	assert_true(live_pages__bytes(&l) < 2 * LIVE_PAGES_STACK_BYTES);
	assert_int_equal(live_pages__lower(&l, SO_PAGE_MAX_THRESHOLD / 4), 0);
	assert_false(live_pages__is_full(&l));
	live_pages__release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_add_up),
		cmocka_unit_test(a_huge_page_is_as_many),
		cmocka_unit_test(pages_of_the_dead_are_forgotten),
		cmocka_unit_test(the_latest_touch_counts),
		cmocka_unit_test(what_is_not_followed_is_not_kept),
		cmocka_unit_test(it_says_when_it_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
