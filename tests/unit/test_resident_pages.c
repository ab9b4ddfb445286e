// SPDX-License-Identifier: GPL-2.0-or-later
/* Which pages are in use, by pages of this process: touched, given back, of a file, never touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/memory/resident_pages.h"

#define PAGE  4096ul
#define PAGES 3000

static char *map(void)
{
	char *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, PAGES * PAGE, MADV_NOHUGEPAGE);
	return p;
}

static void look(const char *p, bool *in_use)
{
	static uint64_t pages[PAGES];

	for (size_t i = 0; i < PAGES; i++)
		pages[i] = (uintptr_t)p / PAGE + i;
	assert_int_equal(resident_pages__look(getpid(), pages, PAGES, in_use), 0);
}

static void touched_pages_are_in_use(void **state)
{
	static bool in_use[PAGES];
	char *p = map();

	for (size_t i = 0; i < PAGES; i += 3)
		p[i * PAGE] = 1;
	look(p, in_use);
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(in_use[i], i % 3 == 0);
	assert_int_equal(madvise(p, PAGES / 2 * PAGE, MADV_DONTNEED), 0);
	look(p, in_use);
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(in_use[i], i % 3 == 0 && i >= PAGES / 2);
	assert_int_equal(munmap(p, PAGES * PAGE), 0);
	look(p, in_use);
	for (size_t i = 0; i < PAGES; i++)
		assert_false(in_use[i]);
}

static void files_and_shared_memory_are_not(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *file = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool in_use = true;
	uint64_t page;

	assert_ptr_not_equal(file, MAP_FAILED);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(*file, 0x7f);
	*shared = 1;
	page = (uintptr_t)file / PAGE;
	assert_int_equal(resident_pages__look(getpid(), &page, 1, &in_use), 0);
	assert_false(in_use);
	page = (uintptr_t)shared / PAGE;
	in_use = true;
	assert_int_equal(resident_pages__look(getpid(), &page, 1, &in_use), 0);
	assert_false(in_use);
	munmap(file, PAGE);
	munmap(shared, PAGE);
	close(fd);
}

static void far_apart_and_beyond_the_end(void **state)
{
	char *p = map();
	uint64_t pages[] = { 0, (uintptr_t)p / PAGE, 1ull << 35, 1ull << 45, 1ull << 51 };
	bool in_use[5] = { true, false, true, true, true };

	*p = 1;
	assert_int_equal(resident_pages__look(getpid(), pages, 5, in_use), 0);
	assert_false(in_use[0]);
	assert_true(in_use[1]);
	for (int i = 2; i < 5; i++)
		assert_false(in_use[i]);
	assert_int_equal(resident_pages__look(getpid(), pages, 0, in_use), 0);
	munmap(p, PAGES * PAGE);
}

static void a_process_that_has_gone_has_none(void **state)
{
	uint64_t page = 1;
	bool in_use = true;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(resident_pages__look(pid, &page, 1, &in_use), 0);
	assert_false(in_use);
}

static void entries(void **state)
{
	assert_false(resident_pages__entry_in_use(0));
	assert_true(resident_pages__entry_in_use(1ull << 63));
	assert_true(resident_pages__entry_in_use(1ull << 62));
	assert_false(resident_pages__entry_in_use(3ull << 61 | 1ull << 63));
	assert_false(resident_pages__entry_in_use(1ull << 61));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(touched_pages_are_in_use),
		cmocka_unit_test(files_and_shared_memory_are_not),
		cmocka_unit_test(far_apart_and_beyond_the_end),
		cmocka_unit_test(a_process_that_has_gone_has_none),
		cmocka_unit_test(entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
