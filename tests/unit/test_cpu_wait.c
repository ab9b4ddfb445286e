// SPDX-License-Identifier: GPL-2.0-or-later
/* How long threads waited for a CPU, by threads that share one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/processes/cpu_wait.h"

#define SPIN_NS 400000000ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *spin(void *cpu)
{
	uint64_t until_ns = clock__now_ns() + SPIN_NS;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(*(int *)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (clock__now_ns() < until_ns)
		;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int a_cpu(void)
{
	cpu_set_t set;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	return cpu;
}

/* They stay until the lock is let go. */
static void start(pthread_t *threads, unsigned n, void *(*run)(void *), void *context)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, context), 0);
}

static void end(pthread_t *threads, unsigned n)
{
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Two of three that want one CPU wait all the time. */
static void threads_that_share_a_cpu(void **state)
{
	struct cpu_wait before = { .ns = 0 }, after = { .ns = 0 };
	pthread_t threads[3];
	int cpu = a_cpu();

	cpu_wait__add(&before, getpid());
	start(threads, 3, spin, &cpu);
	nanosleep(&(struct timespec){ 0, SPIN_NS + 100000000 }, NULL);
	cpu_wait__add(&after, getpid());
	end(threads, 3);
	assert_int_equal(after.n_threads, before.n_threads + 3);
	assert_int_equal(after.n_read, after.n_threads);
	/* Less where they began apart, more where others want that CPU too. */
	assert_true(after.ns - before.ns > SPIN_NS * 5 / 4);
	assert_int_equal(cpu_wait__scale(&after, 1000), 1000);
}

static void *wait_for_the_lock(void *context)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return context;
}

static void there_are_many(void **state)
{
	pthread_t threads[CPU_WAIT_MOST_THREADS];
	struct cpu_wait sum = { .ns = 0 };

	start(threads, CPU_WAIT_MOST_THREADS, wait_for_the_lock, NULL);
	cpu_wait__add(&sum, getpid());
	end(threads, CPU_WAIT_MOST_THREADS);
	assert_int_equal(sum.n_threads, CPU_WAIT_MOST_THREADS + 1);
	assert_int_equal(sum.n_read, CPU_WAIT_MOST_THREADS);
	assert_int_equal(cpu_wait__scale(&sum, 6400), 6500);
}

static void it_has_gone(void **state)
{
	struct cpu_wait sum = { .ns = 0 };

	cpu_wait__add(&sum, INT32_MAX);
	assert_int_equal(sum.n_threads, 0);
	assert_int_equal(sum.ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_that_share_a_cpu),
		cmocka_unit_test(there_are_many),
		cmocka_unit_test(it_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
