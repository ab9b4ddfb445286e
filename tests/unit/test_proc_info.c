// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/os/proc_info.h"

/* A child that stops itself at once; ended by reap(). */
static pid_t stopped_child(const char *name)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_NAME, name);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void reap(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_self(void **state)
{
	struct proc_info info;
	char comm[16];

	prctl(PR_GET_NAME, comm);
	assert_int_equal(proc_info__read(getpid(), &info), 0);
	assert_int_equal(info.tgid, getpid());
	assert_int_equal(info.ppid, getppid());
	assert_int_equal(info.uid, getuid());
	assert_string_equal(info.comm, comm);
	assert_int_equal(info.state, 'R');
	assert_false(info.kernel_thread);
}

static void test_child(void **state)
{
	struct proc_info info;
	pid_t pid = stopped_child("fifteen-letters");

	assert_int_equal(proc_info__read(pid, &info), 0);
	assert_int_equal(info.tgid, pid);
	assert_int_equal(info.ppid, getpid());
	assert_string_equal(info.comm, "fifteen-letters");
	assert_int_equal(info.state, 'T');
	reap(pid);
}

/* The command name may hold what separates the fields. */
static void test_hostile_name(void **state)
{
	static const char *const names[] = { ") Z 1 2 3 (", "a\nTgid: 1\nUid:", "())(", " ", "" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		pid_t pid = stopped_child(names[i]);
		char want[16] = "";
		struct proc_info info;

		strncpy(want, names[i], 15);
		assert_int_equal(proc_info__read(pid, &info), 0);
		assert_string_equal(info.comm, want);
		assert_int_equal(info.state, 'T');
		assert_int_equal(info.tgid, pid);
		assert_int_equal(info.ppid, getpid());
		assert_int_equal(info.uid, getuid());
		reap(pid);
	}
}

static void test_gone(void **state)
{
	struct proc_info info = { .tgid = 77 };
	pid_t pid = stopped_child("x");
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	reap(pid);
	assert_int_equal(proc_info__read(pid, &info), -ESRCH);
	assert_int_equal(info.tgid, 77);
	assert_int_equal(proc_info__read(-1, &info), -ESRCH);
	assert_int_equal(proc_info__add_cpus(pid, &cpus), -ESRCH);
	assert_int_equal(CPU_COUNT(&cpus), 0);
}

static void test_zombie(void **state)
{
	struct proc_info info;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_info__read(pid, &info), 0);
	assert_int_equal(info.state, 'Z');
	assert_true(proc_info__is_zombie(&info));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void *sleep_on(void *context)
{
	sleep(60);
	return NULL;
}

/* Its first thread has ended, another runs: shown as a zombie, and none. */
static void test_leader_ended(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct proc_info info = { 0 };
	pid_t pid = fork();
	pthread_t thread;

	if (!pid) {
		if (pthread_create(&thread, NULL, sleep_on, NULL))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	for (unsigned i = 0; i < 5000 && info.state != 'Z'; i++) {
		nanosleep(&pause, NULL);
		assert_int_equal(proc_info__read(pid, &info), 0);
	}
	assert_int_equal(info.state, 'Z');
	assert_int_equal(info.threads, 2);
	assert_false(proc_info__is_zombie(&info));
	reap(pid);
}

static void test_namespaces(void **state)
{
	pid_t pid = stopped_child("x");

	assert_true(proc_info__same_namespace(pid, "pid"));
	assert_true(proc_info__same_namespace(pid, "mnt"));
	assert_false(proc_info__same_namespace(pid, "no-such-kind"));
	reap(pid);
	assert_false(proc_info__same_namespace(pid, "pid"));
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	/* Without the right to make a namespace there is nothing to see. */
	if (waitpid(pid, &(int){ 0 }, WUNTRACED) == pid && !kill(pid, 0)) {
		assert_true(proc_info__same_namespace(pid, "pid"));
		assert_false(proc_info__same_namespace(pid, "mnt"));
		reap(pid);
	}
}

static void test_kernel_thread(void **state)
{
	struct proc_info info;

	/* kthreadd, where the PID namespace is the first one. */
	if (proc_info__read(2, &info) || strcmp(info.comm, "kthreadd"))
		skip();
	assert_true(info.kernel_thread);
	assert_int_equal(info.uid, 0);
}

static void test_cpu_time(void **state)
{
	struct timespec used;
	struct proc_info info;
	uint64_t used_ns;

	do {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		used_ns = (uint64_t)used.tv_sec * 1000000000 + used.tv_nsec;
	} while (used_ns < 60000000);
	assert_int_equal(proc_info__read(getpid(), &info), 0);
	assert_in_range(info.cpu_ns, used_ns / 2, used_ns * 2);
}

struct worker {
	pthread_t thread;
	pthread_barrier_t ready, done;
	pid_t tid;
	cpu_set_t cpus;
};

static void *work(void *context)
{
	struct worker *w = context;

	w->tid = gettid();
	sched_setaffinity(0, sizeof(w->cpus), &w->cpus);
	pthread_barrier_wait(&w->ready);
	pthread_barrier_wait(&w->done);
	return NULL;
}

static void start(struct worker *w)
{
	pthread_barrier_init(&w->ready, NULL, 2);
	pthread_barrier_init(&w->done, NULL, 2);
	assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
	pthread_barrier_wait(&w->ready);
}

static void finish(struct worker *w)
{
	pthread_barrier_wait(&w->done);
	pthread_join(w->thread, NULL);
	pthread_barrier_destroy(&w->ready);
	pthread_barrier_destroy(&w->done);
}

static void test_thread(void **state)
{
	struct proc_info info;
	struct worker w = { 0 };

	sched_getaffinity(0, sizeof(w.cpus), &w.cpus);
	start(&w);
	assert_int_equal(proc_info__read(w.tid, &info), 0);
	assert_int_equal(info.tgid, getpid());
	finish(&w);
}

/* The CPUs of all threads together are what counts, added to those that the set has already. */
static void test_cpus(void **state)
{
	cpu_set_t all, one, last, got;
	struct worker w = { 0 };
	int first = -1, end = -1, threads;

	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &all) && first < 0)
			first = i;
		if (CPU_ISSET(i, &all))
			end = i;
	}
	if (first == end)
		skip();
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	CPU_ZERO(&last);
	CPU_SET(end, &last);
	w.cpus = last;
	CPU_ZERO(&got);
	CPU_SET(CPU_SETSIZE - 1, &got);
	threads = proc_info__add_cpus(getpid(), &got);
	start(&w);
	sched_setaffinity(0, sizeof(one), &one);
	CPU_ZERO(&got);
	CPU_SET(CPU_SETSIZE - 1, &got);
	/* A sanitizer may have a thread of its own, free to run everywhere. */
	assert_int_equal(proc_info__add_cpus(getpid(), &got), threads + 1);
	assert_true(CPU_ISSET(first, &got) && CPU_ISSET(end, &got) && CPU_ISSET(CPU_SETSIZE - 1, &got));
	if (threads == 1)
		assert_int_equal(CPU_COUNT(&got), 3);
	sched_setaffinity(0, sizeof(all), &all);
	finish(&w);
}

static void test_all(void **state)
{
	pid_t pid = stopped_child(") 1 2 (");
	struct proc_pair *list = NULL;
	unsigned self = 0, child = 0;
	size_t n = 0;

	assert_int_equal(proc_info__all(&list, &n), 0);
	for (size_t i = 0; i < n; i++) {
		self += list[i].pid == getpid() && list[i].ppid == getppid();
		child += list[i].pid == pid && list[i].ppid == getpid();
	}
	free(list);
	reap(pid);
	assert_int_equal(self, 1);
	assert_int_equal(child, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_self),         cmocka_unit_test(test_child),
		cmocka_unit_test(test_hostile_name), cmocka_unit_test(test_gone),
		cmocka_unit_test(test_zombie),       cmocka_unit_test(test_leader_ended),
		cmocka_unit_test(test_namespaces),   cmocka_unit_test(test_kernel_thread),
		cmocka_unit_test(test_cpu_time),     cmocka_unit_test(test_thread),
		cmocka_unit_test(test_cpus),         cmocka_unit_test(test_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
