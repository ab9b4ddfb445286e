// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/targets/generations.h"

/* Take the places of the kernel side and of the table of processes. */

static struct so_slot kernel;

int sampler__read_slot(struct sampler *sampler, unsigned slot, struct so_slot *sum)
{
	*sum = kernel;
	return 0;
}

struct process *process_table__find(struct process_table *table, pid_t tgid)
{
	return NULL;
}

static const char comm[16] = "worker";

static struct stack *make_stack(uint64_t hash)
{
	const struct so_stack_record record = { .type = SO_RECORD_STACK, .n_user = 1, .hash = hash };
	struct stack *stack = stack__new(&record, &hash, NULL);

	assert_non_null(stack);
	return stack;
}

static void add_kind(struct samples *s, enum sample_kind kind, uint32_t tid, uint64_t hash, uint64_t value)
{
	struct stack *stack = make_stack(hash);

	samples__add(s, &(struct stack_sample){ kind, 1, tid, comm, hash, value, 0 }, stack);
	stack__unref(stack);
}

/* As the kernel side takes samples and the collector counts them. */
static void add(struct samples *s, uint64_t hash, uint64_t n)
{
	add_kind(s, SAMPLE_CPU, 2, hash, n);
	kernel.taken += n;
}

static void begin(struct samples *s)
{
	kernel = (struct so_slot){ 0 };
	*s = (struct samples){ 0 };
	samples__begin(s, NULL, 0);
}

static uint64_t sum_of(const struct accumulator *acc)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < acc->n_counters; i++)
		sum += acc->counters[i].count;
	assert_int_equal(sum, acc->samples);
	return sum;
}

static void test_what_is_counted_and_lost(void **state)
{
	struct so_slot slot;
	struct samples s;

	begin(&s);
	add(&s, 10, 3);
	add(&s, 11, 4);
	samples__add(&s, &(struct stack_sample){ SAMPLE_CPU, 1, 2, comm, 12, 5, 0 }, NULL);
	samples__lose(&s, SO_LOSS_MEMORY, 1);
	kernel.lost[SO_LOSS_MEMORY] = 2;
	assert_int_equal(samples__count(&s), 7);
	assert_int_equal(samples__lost(&s, &slot), 8);
	assert_int_equal(slot.lost[SO_LOSS_STACK_MISSING], 5);
	assert_int_equal(slot.lost[SO_LOSS_MEMORY], 3);
	samples__end(&s);
	kernel.lost[SO_LOSS_MEMORY] = 100;
	assert_int_equal(samples__lost(&s, NULL), 8);
	samples__release(&s);
}

static void test_beyond_the_bound(void **state)
{
	struct samples s;

	begin(&s);
	add(&s, 10, 3);
	samples__allow(&s, 0);
	add(&s, 11, 4);
	assert_int_equal(samples__count(&s), 3);
	assert_int_equal(samples__lost(&s, NULL), 4);
	samples__release(&s);
}

/* Values of another kind have counters of their own, and are no samples. */
static void test_another_kind(void **state)
{
	const enum sample_kind other = (enum sample_kind)(SAMPLE_CPU + 1);
	struct samples s, view = { 0 };
	struct accumulator acc;

	begin(&s);
	add(&s, 10, 3);
	assert_int_equal(views__begin(&view, &s), 0);
	add_kind(&s, other, 2, 10, 4000);
	add_kind(&s, other, 2, 10, 5000);
	assert_int_equal(samples__count(&s), 3);
	assert_int_equal(samples__count(&view), 0);
	assert_int_equal(samples__copy(&view, &acc), 0);
	assert_int_equal(acc.n_counters, 1);
	assert_int_equal(acc.counters[0].kind, other);
	assert_int_equal(acc.counters[0].count, 9000);
	assert_int_equal(acc.samples, 0);
	accumulator__release(&acc);
	samples__release(&view);
	samples__release(&s);
}

/* The stack that a thread had last, and most often then. */
static void test_latest_stack(void **state)
{
	struct stack *stack;
	struct samples s;

	begin(&s);
	add(&s, 10, 5);
	samples__next_drain(&s);
	add(&s, 11, 1);
	add(&s, 12, 2);
	stack = samples__latest_stack(&s, 2);
	assert_int_equal(stack->record.hash, 12);
	stack__unref(stack);
	assert_null(samples__latest_stack(&s, 3));
	samples__release(&s);
}

static void test_view(void **state)
{
	struct samples s, view = { 0 };
	struct accumulator acc;
	struct so_slot slot;

	begin(&s);
	add(&s, 10, 3);
	kernel.lost[SO_LOSS_MEMORY] = 7;
	assert_int_equal(views__begin(&view, &s), 0);
	assert_int_equal(samples__count(&view), 0);
	add(&s, 10, 2);
	add(&s, 11, 4);
	kernel.lost[SO_LOSS_MEMORY] += 1;
	kernel.taken += 1;
	assert_int_equal(samples__count(&view), 6);
	assert_int_equal(samples__copy(&view, &acc), 0);
	assert_int_equal(sum_of(&acc), 6);
	accumulator__release(&acc);
	views__end(&view);
	add(&s, 10, 100);
	assert_int_equal(samples__count(&view), 6);
	assert_int_equal(samples__lost(&view, &slot), 1);
	assert_int_equal(slot.taken, 7);
	samples__release(&view);
	samples__release(&s);
}

/* Each sample is in one window, also those that came while a window's profile was being built. */
static void test_windows(void **state)
{
	struct samples_moment now = { .at_ns = 100 }, began;
	struct accumulator acc;
	struct samples s;
	uint64_t lost;

	begin(&s);
	add(&s, 10, 3);
	assert_int_equal(windows__begin(&s, 50, 60), 0);
	assert_int_equal(windows__begin(&s, 50, 60), -EEXIST);
	assert_true(windows__are_taken(&s));
	assert_int_equal(windows__cut(&s, &now, &acc, &began, &lost), 0);
	assert_int_equal(sum_of(&acc), 3);
	assert_int_equal(began.at_ns, 50);
	assert_int_equal(began.wall_ns, 60);
	accumulator__release(&acc);
	add(&s, 10, 4);
	windows__stay(&s);
	assert_int_equal(windows__cut(&s, &now, &acc, &began, &lost), 0);
	assert_int_equal(sum_of(&acc), 7);
	accumulator__release(&acc);
	add(&s, 11, 5);
	windows__move_on(&s);
	now.at_ns = 200;
	assert_int_equal(windows__cut(&s, &now, &acc, &began, &lost), 0);
	assert_int_equal(sum_of(&acc), 5);
	assert_int_equal(began.at_ns, 100);
	accumulator__release(&acc);
	windows__move_on(&s);
	windows__end(&s);
	assert_false(windows__are_taken(&s));
	samples__release(&s);
}

static void make_target(struct targets *ts, struct target *t)
{
	*t = (struct target){ .info = { .state = TARGET_SAMPLING, .keep = true } };
	assert_int_equal(targets__add(ts, t), 0);
	begin(&t->samples);
}

/*
 * A target forgets the generation before the last; its open window, the one that is being built and its views do not.
 */
static void test_generations(void **state)
{
	struct target t, view = { .view = true, .of = &t, .info = { .state = TARGET_SAMPLING } };
	struct samples_moment now = { .at_ns = 100 }, began;
	struct targets ts = { 0 };
	struct accumulator acc;
	uint64_t lost, moves;

	make_target(&ts, &t);
	assert_int_equal(targets__add(&ts, &view), 0);
	assert_int_equal(windows__begin(&t.samples, 1, 1), 0);
	assert_int_equal(views__begin(&view.samples, &t.samples), 0);
	add(&t.samples, 10, 1);
	assert_int_equal(windows__cut(&t.samples, &now, &acc, &began, &lost), 0);
	accumulator__release(&acc);
	add(&t.samples, 11, 2);
	generations__turn(&ts, NULL, 1 << 20);
	assert_null(generations__oldest(&t));
	assert_int_equal(windows__bytes(&t.samples), 0);
	moves = targets__moves(&ts);
	generations__turn(&ts, NULL, 1);
	assert_true(targets__moves(&ts) > moves);
	assert_true(windows__bytes(&t.samples) > 0);
	windows__stay(&t.samples);
	add(&t.samples, 12, 4);
	generations__turn(&ts, NULL, 1);
	add(&t.samples, 13, 8);
	generations__turn(&ts, NULL, 1);
	assert_non_null(generations__oldest(&t));
	assert_int_equal(samples__count(&t.samples), 15);
	assert_int_equal(samples__copy(&t.samples, &acc), 0);
	assert_int_equal(sum_of(&acc), 8);
	assert_int_equal(samples__forgotten(&t.samples), 7);
	accumulator__release(&acc);
	assert_int_equal(samples__figures(&t.samples, &acc), 0);
	assert_int_equal(acc.samples, 15);
	assert_int_equal(samples__copy(&view.samples, &acc), 0);
	assert_int_equal(sum_of(&acc) + samples__lost(&view.samples, NULL), 15);
	accumulator__release(&acc);
	assert_int_equal(windows__cut(&t.samples, &now, &acc, &began, &lost), 0);
	assert_int_equal(sum_of(&acc) + lost, 15);
	accumulator__release(&acc);
	windows__end(&t.samples);
	views__end(&view.samples);
	samples__release(&view.samples);
	samples__release(&t.samples);
}

/* What a view itself could not keep is lost once. */
static void test_losses_of_a_view_count_once(void **state)
{
	struct samples s, view = { 0 };

	begin(&s);
	assert_int_equal(views__begin(&view, &s), 0);
	add(&s, 10, 5);
	view.acc.max_bytes = 1;
	views__turn(&view, &s.acc);
	view.base.n = 0;
	assert_int_equal(samples__lost(&view, NULL), 5);
	samples__release(&s);
	s.acc = (struct accumulator){ 0 };
	views__end(&view);
	assert_int_equal(samples__count(&view), 0);
	assert_int_equal(samples__lost(&view, NULL), 5);
	samples__release(&view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_counted_and_lost),
		cmocka_unit_test(test_beyond_the_bound),
		cmocka_unit_test(test_another_kind),
		cmocka_unit_test(test_latest_stack),
		cmocka_unit_test(test_view),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_losses_of_a_view_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
