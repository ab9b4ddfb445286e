// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/cuda/cuda_threads.h"

#define SECOND_NS   1000000000ull
#define MAX_ENTRIES 800u
#define PROCESS     7u /* its threads live from first_living on */

static uint32_t first_living;
static bool process_lives;

static bool lives(uint32_t tgid, uint32_t tid)
{
	return tgid == tid ? process_lives : tid >= first_living;
}

static struct cuda_threads *new_threads(void)
{
	struct cuda_threads *threads = NULL;

	assert_int_equal(cuda_threads__new(MAX_ENTRIES, lives, &threads), 0);
	process_lives = true;
	return threads;
}

/* Each of the threads first … end - 1 has ten entries. */
static void look(struct cuda_threads *threads, uint32_t first, uint32_t end, uint64_t now_ns)
{
	assert_int_equal(cuda_threads__begin(threads), 0);
	for (uint32_t i = 0; i < 10; i++) {
		for (uint32_t tid = first; tid < end; tid++)
			assert_int_equal(cuda_threads__add(threads, PROCESS, tid), 0);
	}
	cuda_threads__end(threads, now_ns);
}

/* How many are chosen; they are first, first + 1, … */
static size_t chosen(const struct cuda_threads *threads, uint32_t first, uint64_t now_ns)
{
	struct u64_table set = { 0 };
	uint32_t value;
	size_t n;

	assert_int_equal(cuda_threads__choose(threads, now_ns, &set), 0);
	n = set.n;
	for (uint32_t i = 0; i < n; i++)
		assert_true(u64_table__get(&set, cuda_threads__key(PROCESS, first + i), &value));
	u64_table__release(&set);
	return n;
}

static void test_room_is_made_when_a_quarter_is_full(void **state)
{
	_cleanup_(cuda_threads) struct cuda_threads *threads = new_threads();

	first_living = 120;
	look(threads, 100, 120, SECOND_NS);
	assert_int_equal(chosen(threads, 0, SECOND_NS), 0);
	/* The one more that lives makes the map fuller than 200 entries; 100 may stay. */
	look(threads, 100, 121, 4 * SECOND_NS);
	assert_int_equal(chosen(threads, 100, 4 * SECOND_NS), 11);
	/* Of those that live none is to go. */
	first_living = 105;
	look(threads, 100, 180, 7 * SECOND_NS);
	assert_int_equal(chosen(threads, 100, 7 * SECOND_NS), 5);
}

static void test_who_ended_first_goes_first(void **state)
{
	_cleanup_(cuda_threads) struct cuda_threads *threads = new_threads();

	first_living = 119;
	look(threads, 100, 119, SECOND_NS);
	/* Number 99 is seen to have ended after the others, and stays. */
	first_living = 200;
	look(threads, 99, 120, 4 * SECOND_NS);
	assert_int_equal(chosen(threads, 100, 4 * SECOND_NS), 11);
}

static void test_age(void **state)
{
	_cleanup_(cuda_threads) struct cuda_threads *threads = new_threads();
	uint64_t later = CUDA_THREADS_FOLD_AFTER_NS + 2 * SECOND_NS;

	first_living = 103;
	look(threads, 100, 105, SECOND_NS);
	look(threads, 100, 105, CUDA_THREADS_FOLD_AFTER_NS);
	assert_int_equal(chosen(threads, 100, CUDA_THREADS_FOLD_AFTER_NS), 0);
	/* Once a minute. */
	look(threads, 100, 105, later);
	assert_int_equal(chosen(threads, 100, later), 0);
	look(threads, 100, 105, later + 60 * SECOND_NS);
	assert_int_equal(chosen(threads, 100, later + 60 * SECOND_NS), 3);
	/* What has no entries any more is forgotten. */
	look(threads, 103, 105, later + 63 * SECOND_NS);
	assert_int_equal(chosen(threads, 100, later + 200 * SECOND_NS), 0);
}

static void test_a_number_that_is_used_again(void **state)
{
	_cleanup_(cuda_threads) struct cuda_threads *threads = new_threads();

	first_living = 130;
	look(threads, 100, 130, SECOND_NS);
	assert_int_equal(chosen(threads, 100, SECOND_NS), 20);
	/* Since the look. */
	first_living = 104;
	assert_int_equal(chosen(threads, 100, SECOND_NS), 4);
	/* It has not ended at that time any more. */
	look(threads, 100, 130, 4 * SECOND_NS);
	first_living = 130;
	look(threads, 100, 130, CUDA_THREADS_FOLD_AFTER_NS);
	assert_int_equal(chosen(threads, 100, CUDA_THREADS_FOLD_AFTER_NS), 20);
}

static void test_a_process_that_has_ended(void **state)
{
	_cleanup_(cuda_threads) struct cuda_threads *threads = new_threads();

	first_living = 130;
	look(threads, 100, 130, SECOND_NS);
	process_lives = false;
	assert_int_equal(chosen(threads, 100, SECOND_NS), 0);
}

static void *tell_number(void *out)
{
	*(uint32_t *)out = (uint32_t)syscall(SYS_gettid);
	return NULL;
}

static void test_lives(void **state)
{
	uint32_t pid = (uint32_t)getpid(), tid;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, tell_number, &tid), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(cuda_threads__lives(pid, pid));
	/* The kernel wakes who joins a moment before the thread is gone. */
	for (unsigned i = 0; i < 20000 && cuda_threads__lives(pid, tid); i++)
		usleep(1000);
	assert_false(cuda_threads__lives(pid, tid));
	assert_true(cuda_threads__lives(1, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room_is_made_when_a_quarter_is_full),
		cmocka_unit_test(test_who_ended_first_goes_first),
		cmocka_unit_test(test_age),
		cmocka_unit_test(test_a_number_that_is_used_again),
		cmocka_unit_test(test_a_process_that_has_ended),
		cmocka_unit_test(test_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
