// SPDX-License-Identifier: GPL-2.0-or-later
/* A process whose first thread has ended, and all that is asked of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/memory/memory_series.h"
#include "daemon/memory/resident_pages.h"
#include "daemon/os/proc_file.h"
#include "daemon/os/proc_info.h"
#include "daemon/os/proc_maps.h"
#include "daemon/os/process_access.h"
#include "daemon/os/process_memory.h"
#include "daemon/os/uprobe_links.h"
#include "stakeout/live_thread.h"

static char word[32]; /* that the child writes */

static void *pause_on(void *context)
{
	for (;;)
		pause();
	return context;
}

/* Also ended: a thread that is no first one. */
static void *end_at_once(void *context)
{
	return context;
}

static void wait_for_state(pid_t pid, char state)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct proc_info info = { 0 };

	for (unsigned i = 0; i < 20000 && info.state != state; i++) {
		nanosleep(&moment, NULL);
		assert_int_equal(proc_info__read(pid, &info), 0);
	}
	assert_int_equal(info.state, state);
}

static int start(void **state)
{
	pthread_t thread;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		strcpy(word, "the child's");
		if (pthread_create(&thread, NULL, end_at_once, NULL) || pthread_create(&thread, NULL, pause_on, NULL))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	wait_for_state(pid, 'Z');
	*state = (void *)(intptr_t)pid;
	return 0;
}

static int end(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;

	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0) != pid;
}

static void test_which(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state, live = live_thread__of(pid);
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct proc_info info;

	assert_int_not_equal(live, pid);
	assert_int_equal(proc_info__read(live, &info), 0);
	assert_int_equal(info.tgid, pid);
	assert_int_equal(live_thread__in(proc, pid), live);
	close(proc);
}

/* One that lives, the kernel's, one that has ended, none at all. */
static void test_others(void **state)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(live_thread__of(getpid()), getpid());
	assert_int_equal(live_thread__of(2), 2);
	wait_for_state(pid, 'Z');
	assert_int_equal(live_thread__of(pid), pid);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(live_thread__of(pid), pid);
	assert_int_equal(live_thread__of(0), 0);
	assert_int_equal(live_thread__of(-1), -1);
}

static void test_memory(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;
	uint64_t page = (uintptr_t)word / 4096;
	char read[sizeof(word)] = "";
	bool in_use = false;

	assert_int_equal(process_memory__read(pid, (uintptr_t)word, read, sizeof(read)), sizeof(read));
	assert_string_equal(read, "the child's");
	assert_int_equal(resident_pages__look(pid, &page, 1, &in_use), 0);
	assert_true(in_use);
}

static void test_maps(void **state)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	pid_t pid = (pid_t)(intptr_t)*state;
	const struct proc_map *map;
	int fd;

	assert_int_equal(proc_maps__read(pid, false, &maps, NULL), 0);
	map = proc_maps__find(&maps, (uintptr_t)test_maps);
	assert_non_null(map);
	fd = proc_maps__open_file(pid, map);
	assert_true(fd >= 0);
	close(fd);
}

static void test_texts(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;
	struct memory_usage usage;
	char text[256];

	assert_true(proc_file__read(PROC_FILE_HERE, pid, "cmdline", text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "test_live_thread"));
	assert_int_equal(memory_usage__read(pid, &usage), 0);
	assert_true(proc_info__same_namespace(pid, "mnt"));
}

static void test_access(void **state)
{
	pid_t pid = (pid_t)(intptr_t)*state;
	struct caller own = { getuid(), getgid() };

	assert_true(process_access__holds(pid, own));
	assert_int_equal(process_access__check(pid, own, NULL), 0);
}

/* The kernel would make a link that never sees a call. */
static void test_probes(void **state)
{
	const uint64_t offset = 0, cookie = 0;
	pid_t pid = (pid_t)(intptr_t)*state;
	int ret = uprobe_links__make(-1, UPROBE_LINKS_MULTI, false, "/proc/self/exe", &offset, &cookie, 1, pid);

	assert_int_equal(ret, -EOWNERDEAD);
	assert_non_null(strstr(uprobe_links__error(ret), "first thread has ended"));
	assert_string_equal(uprobe_links__error(-EBADF), strerror(EBADF));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which),  cmocka_unit_test(test_others), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_maps),   cmocka_unit_test(test_texts),  cmocka_unit_test(test_access),
		cmocka_unit_test(test_probes),
	};

	return cmocka_run_group_tests(tests, start, end);
}
