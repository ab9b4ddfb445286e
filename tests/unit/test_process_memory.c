// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads of a child's memory: what it has touched is read, what it has not stays untouched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/os/process_memory.h"

#define PAGE  4096u
#define PAGES 80 /* more than are asked for at once */

static uint8_t into[PAGES * PAGE];
static uint8_t *pages;

static uint8_t *map_pages(void)
{
	uint8_t *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	/* Huge pages would be touched as a whole. */
	madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
	return at;
}

/* A child that has touched the first n of the pages, and waits. */
static pid_t start_child(unsigned n, void (*prepare)(void))
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare)
			prepare();
		for (unsigned i = 0; i < n; i++)
			pages[i * PAGE] = (uint8_t)(i + 1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static uint64_t address(unsigned page)
{
	return (uintptr_t)pages + page * PAGE;
}

/* Kilobytes of the child's anonymous pages. */
static long anonymous_kb(pid_t pid)
{
	char path[40], line[128];
	long kb = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "RssAnon: %ld kB", &kb);
	fclose(f);
	return kb;
}

static void ends_before_what_is_untouched(void **state)
{
	const unsigned touched = 70;
	struct process_memory m;
	pid_t pid;
	long kb;

	pages = map_pages();
	pid = start_child(touched, NULL);
	m = process_memory__of(pid);
	kb = anonymous_kb(pid);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(process_memory__get(&m, address(0), into, sizeof(into)), touched * PAGE);
		assert_int_equal(into[(touched - 1) * PAGE], touched);
		assert_int_equal(process_memory__get_stack(&m, address(69) + 100, into, sizeof(into) / 2), PAGE - 100);
		assert_int_equal(process_memory__get(&m, address(69) + PAGE - 4, into, 8), 4);
		assert_int_equal(process_memory__get(&m, address(70), into, 8), 0);
		assert_int_equal(process_memory__get(&m, address(70) - 1, into, 1), 1);
	}
	assert_int_equal(process_memory__read(pid, address(5), into, 1), 1);
	assert_int_equal(into[0], 6);
	assert_int_equal(process_memory__read(pid, address(5), into, 0), 0);
	assert_int_equal(process_memory__read(pid, UINT64_MAX - 4, into, 8), 0);
	assert_int_equal(process_memory__read(pid, 1ull << 62, into, 8), 0);
	assert_int_equal(anonymous_kb(pid), kb);
	process_memory__end(&m);
	end_child(pid);
	munmap(pages, PAGES * PAGE);
}

static int server;

static void register_pages(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .range = { address(2), (PAGES - 2) * PAGE },
					.mode = UFFDIO_REGISTER_MODE_MISSING };

	server = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (server < 0 || ioctl(server, UFFDIO_API, &api) || ioctl(server, UFFDIO_REGISTER, &area))
		_exit(0);
}

/* A read of such a page would never return. */
static void ends_before_what_nobody_serves(void **state)
{
	struct process_memory m;
	pid_t pid;

	server = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (server < 0)
		skip();
	close(server);
	pages = map_pages();
	pid = start_child(2, register_pages);
	m = process_memory__of(pid);
	assert_int_equal(process_memory__get(&m, address(0), into, sizeof(into)), 2 * PAGE);
	assert_int_equal(process_memory__get_stack(&m, address(1), into, sizeof(into) / 2), PAGE);
	assert_int_equal(process_memory__get(&m, address(2), into, 1), 0);
	process_memory__end(&m);
	end_child(pid);
	munmap(pages, PAGES * PAGE);
}

/* Pages of a file are the file's: a child that has not touched them since the fork can be read. But for a stack. */
static void files_are_read(void **state)
{
	char path[] = "/tmp/stakeout-test-XXXXXX";
	int fd = mkstemp(path);
	struct process_memory m;
	pid_t pid;

	assert_true(fd >= 0);
	unlink(path);
	memset(into, 'x', sizeof(into));
	assert_int_equal(write(fd, into, sizeof(into)), sizeof(into));
	pages = map_pages();
	assert_ptr_not_equal(mmap(pages + 2 * PAGE, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), MAP_FAILED);
	pid = start_child(2, NULL);
	m = process_memory__of(pid);
	assert_int_equal(process_memory__get_stack(&m, address(0), into, 4 * PAGE), 2 * PAGE);
	assert_int_equal(process_memory__get(&m, address(0), into, sizeof(into)), 4 * PAGE);
	assert_int_equal(into[4 * PAGE - 1], 'x');
	process_memory__end(&m);
	end_child(pid);
	close(fd);
	munmap(pages, PAGES * PAGE);
}

static void kernels_code_is_read(void **state)
{
	const uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	pid_t pid;

	if (!vdso)
		skip();
	pid = start_child(0, NULL);
	assert_int_equal(process_memory__read(pid, vdso, into, 4), 4);
	assert_memory_equal(into, "\177ELF", 4);
	end_child(pid);
}

static void who_is_gone_has_no_memory(void **state)
{
	struct process_memory m;
	pid_t pid;

	pages = map_pages();
	pid = start_child(2, NULL);
	m = process_memory__of(pid);
	assert_int_equal(process_memory__get(&m, address(0), into, 1), 1);
	end_child(pid);
	assert_int_equal(process_memory__get(&m, address(0), into, 1), 0);
	assert_int_equal(process_memory__get(&m, address(1), into, 1), 0);
	assert_int_equal(process_memory__read(pid, address(0), into, 1), 0);
	process_memory__end(&m);
	munmap(pages, PAGES * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_before_what_is_untouched),
		cmocka_unit_test(ends_before_what_nobody_serves),
		cmocka_unit_test(files_are_read),
		cmocka_unit_test(kernels_code_is_read),
		cmocka_unit_test(who_is_gone_has_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
