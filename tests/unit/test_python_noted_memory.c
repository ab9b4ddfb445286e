// SPDX-License-Identifier: GPL-2.0-or-later
/* This process's own memory, which changes, or does not, between the reading and the second one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/python/python_noted_memory.h"

static struct python_noted_memory noted;
static struct process_memory own;

static bool read_bytes(const void *from, size_t bytes)
{
	const struct foreign_memory memory = python_noted_memory__reader(&noted);
	uint8_t to[PYTHON_NOTED_BYTES + 1];

	return foreign_memory__read(&memory, (uintptr_t)from, to, bytes) && !memcmp(to, from, bytes);
}

static void what_stays_is_the_same(void **state)
{
	static uint64_t words[] = { 1, 2, 3, 4 };

	python_noted_memory__begin(&noted, &own);
	assert_true(python_noted_memory__is_same(&noted));
	assert_true(read_bytes(&words[2], 8));
	assert_true(read_bytes(&words[0], 24));
	assert_true(read_bytes(&words[3], 3));
	assert_true(python_noted_memory__is_same(&noted));
	assert_false(noted.full);
}

/* Each byte of each piece. */
static void what_changes_is_seen(void **state)
{
	static uint8_t bytes[3][16];

	for (unsigned piece = 0; piece < 3; piece++) {
		for (unsigned i = 0; i < sizeof(bytes[0]); i++) {
			python_noted_memory__begin(&noted, &own);
			for (unsigned k = 0; k < 3; k++)
				assert_true(read_bytes(bytes[k], sizeof(bytes[k])));
			bytes[piece][i]++;
			assert_false(python_noted_memory__is_same(&noted));
			bytes[piece][i]--;
			assert_true(python_noted_memory__is_same(&noted));
		}
	}
}

static void what_is_gone_is_not_the_same(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *mapped = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(mapped, MAP_FAILED);
	*mapped = 1;
	python_noted_memory__begin(&noted, &own);
	assert_true(read_bytes(mapped, 8));
	assert_true(python_noted_memory__is_same(&noted));
	munmap(mapped, page);
	assert_false(python_noted_memory__is_same(&noted));
}

static void there_is_an_end(void **state)
{
	static const uint8_t bytes[PYTHON_NOTED_BYTES];

	python_noted_memory__begin(&noted, &own);
	for (unsigned i = 0; i < PYTHON_NOTED_PIECES; i++)
		assert_true(read_bytes(bytes, 1));
	assert_false(noted.full);
	assert_false(read_bytes(bytes, 1));
	assert_true(noted.full);
	assert_true(python_noted_memory__is_same(&noted));
	python_noted_memory__begin(&noted, &own);
	assert_true(read_bytes(bytes, sizeof(bytes)));
	assert_false(read_bytes(bytes, 1));
	assert_true(noted.full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stays_is_the_same),
		cmocka_unit_test(what_changes_is_seen),
		cmocka_unit_test(what_is_gone_is_not_the_same),
		cmocka_unit_test(there_is_an_end),
	};

	own = process_memory__of(getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
