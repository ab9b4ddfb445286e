// SPDX-License-Identifier: GPL-2.0-or-later
/* A lock whose writers wait as the kernel's do, and who holds it open. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/os/clock.h"
#include "daemon/cuda/cuda_gate.h"

#define MS 1000000ull

struct lock {
	pthread_mutex_t mutex;
	unsigned written, closed, wait_ms;
	int answer;
};

static int write_lock(void *context)
{
	struct lock *lock = context;
	unsigned wait_ms;
	int answer;

	pthread_mutex_lock(&lock->mutex);
	wait_ms = lock->wait_ms;
	pthread_mutex_unlock(&lock->mutex);
	usleep(wait_ms * 1000);
	pthread_mutex_lock(&lock->mutex);
	lock->written++;
	answer = lock->answer;
	pthread_mutex_unlock(&lock->mutex);
	return answer;
}

static void close_lock(void *context, int fd)
{
	struct lock *lock = context;

	assert_int_equal(fd, 7);
	pthread_mutex_lock(&lock->mutex);
	lock->closed++;
	pthread_mutex_unlock(&lock->mutex);
}

static unsigned written(struct lock *lock)
{
	unsigned n;

	pthread_mutex_lock(&lock->mutex);
	n = lock->written;
	pthread_mutex_unlock(&lock->mutex);
	return n;
}

static struct cuda_gate *start(struct lock *lock)
{
	struct cuda_gate *gate;

	assert_int_equal(cuda_gate__new(write_lock, close_lock, lock, &gate), 0);
	return gate;
}

static void wait_open(struct cuda_gate *gate)
{
	uint64_t end = clock__now_ns() + 5000 * MS;

	while (!cuda_gate__is_open(gate)) {
		assert_true(clock__now_ns() < end);
		usleep(200);
	}
}

static void nobody_wants_it(void **state)
{
	struct lock lock = { .mutex = PTHREAD_MUTEX_INITIALIZER, .answer = 7 };
	struct cuda_gate *gate = start(&lock);

	usleep(20000);
	assert_false(cuda_gate__is_open(gate));
	cuda_gate__want(gate, clock__now_ns() - MS);
	usleep(20000);
	cuda_gate__free(gate);
	assert_int_equal(lock.written, 0);
	cuda_gate__free(NULL);
}

static void is_held_open_as_long_as_it_is_wanted(void **state)
{
	struct lock lock = { .mutex = PTHREAD_MUTEX_INITIALIZER, .answer = 7 };
	struct cuda_gate *gate = start(&lock);
	uint64_t until = clock__now_ns() + 100 * MS;
	unsigned n, later;

	cuda_gate__want(gate, until);
	/* The sooner of two times does not count. */
	cuda_gate__want(gate, clock__now_ns() + MS);
	wait_open(gate);
	while (clock__now_ns() < until)
		usleep(1000);
	n = written(&lock);
	usleep(50000);
	later = written(&lock);
	assert_false(cuda_gate__is_open(gate));
	/* Every 2.5 ms, which are 41 times at most; less often on a busy machine. One may have been under way. */
	assert_true(n >= 2 && n <= 41 && later <= n + 1);
	cuda_gate__want(gate, clock__now_ns() + 20 * MS);
	wait_open(gate);
	cuda_gate__free(gate);
	assert_true(lock.written > later && lock.closed == lock.written);
}

/* Before the first writer has passed nobody should begin. */
static void opens_when_the_writer_has_passed(void **state)
{
	struct lock lock = { .mutex = PTHREAD_MUTEX_INITIALIZER, .answer = 7, .wait_ms = 60 };
	struct cuda_gate *gate = start(&lock);
	uint64_t begin = clock__now_ns();

	cuda_gate__want(gate, begin + 1000 * MS);
	assert_false(cuda_gate__is_open(gate));
	wait_open(gate);
	assert_true(clock__now_ns() - begin >= 60 * MS);
	/* One that waits is waited for at the end. */
	cuda_gate__free(gate);
	assert_true(lock.closed == lock.written);
}

/* What cannot be had is not waited for. */
static void where_there_are_no_such_links(void **state)
{
	struct lock lock = { .mutex = PTHREAD_MUTEX_INITIALIZER, .answer = -95 };
	struct cuda_gate *gate = start(&lock);

	cuda_gate__want(gate, clock__now_ns() + 50 * MS);
	wait_open(gate);
	usleep(30000);
	assert_true(cuda_gate__is_open(gate));
	cuda_gate__free(gate);
	assert_int_equal(lock.closed, 0);
}

/* As nobody is to wait for what comes and goes by what the target does, there is none for some time. */
static void where_links_are_not_to_be_had_for_a_while(void **state)
{
	struct lock lock = { .mutex = PTHREAD_MUTEX_INITIALIZER, .answer = -16 };
	struct cuda_gate *gate = start(&lock);

	for (unsigned i = 0; i < 3; i++) {
		cuda_gate__want(gate, clock__now_ns() + 30 * MS);
		wait_open(gate);
		usleep(40000);
		assert_true(cuda_gate__is_open(gate));
		assert_int_equal(written(&lock), 1);
	}
	cuda_gate__free(gate);
	assert_int_equal(lock.closed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_wants_it),
		cmocka_unit_test(is_held_open_as_long_as_it_is_wanted),
		cmocka_unit_test(opens_when_the_writer_has_passed),
		cmocka_unit_test(where_there_are_no_such_links),
		cmocka_unit_test(where_links_are_not_to_be_had_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
