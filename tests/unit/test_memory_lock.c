// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes that hang are made up: what tries them waits for the test. Real ones: tests/integration/test_stuck.py. */
#include "tests/unit/memory_lock_try.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/os/clock.h"
#include "daemon/os/log.h"

#define PATIENCE_MS 50
#define FIRST       (1 << 22) /* beyond all real numbers */
#define MANY        (BOUNDED_CALL_MAX_STUCK + 4)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hangs[MANY];
static unsigned n_tries;

static void try_process(pid_t pid)
{
	pthread_mutex_lock(&lock);
	n_tries++;
	while (pid >= FIRST && pid < FIRST + MANY && hangs[pid - FIRST])
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void set_hangs(unsigned i, bool value)
{
	pthread_mutex_lock(&lock);
	hangs[i] = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static int set_up(void **state)
{
	log__set_quiet(true);
	memset(hangs, 0, sizeof(hangs));
	n_tries = 0;
	set_try(try_process, PATIENCE_MS);
	return 0;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < MANY; i++)
		set_hangs(i, false);
	for (unsigned i = 0; i < 10000 && n_stuck(); i++)
		usleep(2000);
	set_try(NULL, 0);
	forgive();
	return n_stuck() ? -1 : 0;
}

static double seconds_of(pid_t pid, int want)
{
	uint64_t begin_ns = clock__now_ns();

	assert_int_equal(memory_lock__check(pid), want);
	return (double)(clock__now_ns() - begin_ns) / 1e9;
}

static void one_that_answers(void **state)
{
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(memory_lock__check(FIRST), 0);
	/* What answered just now is not asked again each time. */
	assert_in_range(__atomic_load_n(&n_tries, __ATOMIC_RELAXED), 1, 50);
	assert_int_equal(n_stuck(), 0);
}

static void one_that_hangs(void **state)
{
	double least = PATIENCE_MS;

	set_hangs(0, true);
	assert_true(seconds_of(FIRST, -EBUSY) >= PATIENCE_MS / 1e3);
	/* From then on it is said at once, by nobody new, and others are not delayed. */
	for (unsigned i = 0; i < 100; i++)
		least = fmin(least, seconds_of(FIRST, -EBUSY));
	assert_true(least < PATIENCE_MS / 1e3); /* on a busy machine any single one may take long */
	assert_int_equal(n_stuck(), 1);
	assert_int_equal(__atomic_load_n(&n_tries, __ATOMIC_RELAXED), 1);
	assert_int_equal(memory_lock__check(FIRST + 1), 0);
	set_hangs(0, false);
	for (unsigned i = 0; i < 10000 && n_stuck(); i++)
		usleep(2000);
	assert_int_equal(memory_lock__check(FIRST), 0);
}

static void more_than_there_may_be(void **state)
{
	for (unsigned i = 0; i < MANY; i++)
		set_hangs(i, true);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(memory_lock__check(FIRST + (pid_t)i), -EBUSY);
	assert_int_equal(n_stuck(), BOUNDED_CALL_MAX_STUCK);
	assert_int_equal(__atomic_load_n(&n_tries, __ATOMIC_RELAXED), BOUNDED_CALL_MAX_STUCK);
	/* One goes on: there is a thread for the next. */
	set_hangs(3, false);
	for (unsigned i = 0; i < 10000 && n_stuck() == BOUNDED_CALL_MAX_STUCK; i++)
		usleep(2000);
	assert_int_equal(memory_lock__check(FIRST + 3), 0);
}

static void *ask(void *context)
{
	return (void *)(intptr_t)memory_lock__check(*(const pid_t *)context);
}

/* Threads that ask for one process at once have one that tries each, and no more than they are. */
static void many_that_ask(void **state)
{
	pid_t pid = FIRST;
	pthread_t threads[8];
	void *answer;

	set_hangs(0, true);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &pid), 0);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(threads[i], &answer), 0);
		assert_int_equal((int)(intptr_t)answer, -EBUSY);
	}
	assert_in_range(__atomic_load_n(&n_tries, __ATOMIC_RELAXED), 1, 8);
	assert_int_equal(n_stuck(), n_tries);
}

static bool others_hang;

static void try_other(pid_t pid)
{
	pthread_mutex_lock(&lock);
	while (others_hang)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static pid_t child_of(uid_t uid)
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		if (setuid(uid) || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

/* One user's processes take no more threads than their share; there are others for another user's. */
static void one_user(void **state)
{
	pid_t children[BOUNDED_CALL_USER_STUCK + 2], other;

	if (geteuid())
		skip();
	others_hang = true;
	set_try(try_other, 5); /* eight of these are no long wait */
	for (unsigned i = 0; i < BOUNDED_CALL_USER_STUCK + 2; i++) {
		children[i] = child_of(65533);
		assert_int_equal(memory_lock__check(children[i]), -EBUSY);
	}
	assert_int_equal(n_stuck(), BOUNDED_CALL_USER_STUCK);
	other = child_of(65534);
	assert_int_equal(memory_lock__check(other), -EBUSY);
	assert_int_equal(n_stuck(), BOUNDED_CALL_USER_STUCK + 1);
	pthread_mutex_lock(&lock);
	others_hang = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < BOUNDED_CALL_USER_STUCK + 3; i++) {
		kill(i < BOUNDED_CALL_USER_STUCK + 2 ? children[i] : other, SIGKILL);
		wait(NULL);
	}
}

/* A user whose processes were waited for long enough is not waited for; another one is. */
static void no_more_patience(void **state)
{
	pid_t slow, other;

	if (geteuid())
		skip();
	slow = child_of(65533);
	other = child_of(65534);
	pthread_mutex_lock(&pool.lock);
	for (unsigned i = 0; i < BOUNDED_CALL_USER_MS / BOUNDED_CALL_MOST_MS; i++)
		note_wait(&(struct bounded_call){ .pid = slow }, UINT64_MAX);
	pthread_mutex_unlock(&pool.lock);
	assert_int_equal(memory_lock__check(slow), -EBUSY);
	assert_int_equal(memory_lock__check(other), 0);
	assert_int_equal(__atomic_load_n(&n_tries, __ATOMIC_RELAXED), 1);
	forgive();
	assert_int_equal(memory_lock__check(slow), 0);
	kill(slow, SIGKILL);
	kill(other, SIGKILL);
	wait(NULL);
	wait(NULL);
}

/* Of more slow users than can be noted, who was noted first goes, whose time is over first. */
static void slow_users(void **state)
{
	uint64_t now_ns = clock__now_ns();

	pthread_mutex_lock(&pool.lock);
	for (unsigned i = 0; i < N_USERS; i++)
		pool.users[i] = (struct slow_user){ .uid = 1000 + i, .since_ns = now_ns - (i == 5), .waited_ns = 1 };
	pool.n_users = N_USERS;
	note_wait(&(struct bounded_call){ .pid = FIRST }, MS);
	assert_int_equal(pool.n_users, N_USERS);
	assert_int_equal(pool.users[5].uid, 0);
	assert_int_equal(pool.users[5].waited_ns, MS);
	assert_int_equal(pool.users[N_USERS - 1].uid, 1000 + N_USERS - 1);
	pthread_mutex_unlock(&pool.lock);
}

static pthread_mutex_t callers_lock = PTHREAD_MUTEX_INITIALIZER;
static bool forgetting;

static void run_slowly(void *context)
{
	try_process(FIRST);
}

static void run_at_once(void *context)
{
}

static void forget_with_lock(void *context)
{
	__atomic_store_n(&forgetting, true, __ATOMIC_RELEASE);
	pthread_mutex_lock(&callers_lock);
	pthread_mutex_unlock(&callers_lock);
}

static void forget_nothing(void *context)
{
}

/* A call that came too late is forgotten by a thread that waits for the caller's lock: the next call has another. */
static void forgotten_under_a_lock(void **state)
{
	const struct bounded_call slow = { .kind = BOUNDED_CALL_FILES,
					   .pid = FIRST,
					   .patience_ms = 5,
					   .run = run_slowly,
					   .forget = forget_with_lock,
					   .context = NULL };
	const struct bounded_call quick = { .kind = BOUNDED_CALL_FILES,
					    .pid = FIRST + 1,
					    .patience_ms = 2000,
					    .run = run_at_once,
					    .forget = forget_nothing,
					    .context = NULL };
	unsigned stuck;
	int ret;

	set_hangs(0, true);
	pthread_mutex_lock(&callers_lock);
	assert_int_equal(bounded_call__make(&slow), -EINPROGRESS);
	set_hangs(0, false);
	for (unsigned i = 0; i < 10000 && !__atomic_load_n(&forgetting, __ATOMIC_ACQUIRE); i++)
		usleep(2000);
	ret = bounded_call__make(&quick);
	stuck = n_stuck();
	pthread_mutex_unlock(&callers_lock);
	assert_int_equal(ret, 0);
	assert_int_equal(stuck, 1);
}

static void real_processes(void **state)
{
	static const char text[] = "there";
	char got[sizeof(text)] = "";
	pid_t child = fork();

	set_try(NULL, 0);
	if (!child) {
		pause();
		_exit(0);
	}
	assert_int_equal(memory_lock__check(child), 0);
	assert_int_equal(memory_lock__read(child, (uint64_t)(uintptr_t)text, got, sizeof(got)), sizeof(got));
	assert_string_equal(got, text);
	assert_int_equal(memory_lock__read_file(PROC_FILE_HERE, child, "comm", got, sizeof(got)), sizeof(got) - 1);
	assert_int_equal(got[sizeof(got) - 1], '\0');
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	/* One that has ended does not hang. */
	assert_int_equal(memory_lock__check(child), 0);
	assert_int_equal(memory_lock__read(child, (uint64_t)(uintptr_t)text, got, sizeof(got)), 0);
	assert_int_equal(memory_lock__read_file(PROC_FILE_HERE, child, "comm", got, sizeof(got)), -ESRCH);
	assert_int_equal(memory_lock__check(FIRST), 0);
	assert_int_equal(memory_lock__check(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_that_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(more_than_there_may_be, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_that_ask, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_more_patience, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slow_users, set_up, tear_down),
		cmocka_unit_test_setup_teardown(forgotten_under_a_lock, set_up, tear_down),
		cmocka_unit_test_setup_teardown(real_processes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
