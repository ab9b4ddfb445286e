/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_names.h"
#include "tests/unit/python_code_layouts.h"

/*
 * A foreign memory without end: every page holds a code object and what belongs to it, made when it is read. Its name
 * says which page it is, and its first line what the page was last changed to.
 */
#define PAGE      4096u
#define FIRST     0x10000u
#define MAX_PAGES 4096u

struct pages {
	struct python_layout layout;
	struct foreign_memory memory;
	uint32_t lines[MAX_PAGES];
	bool unreadable[MAX_PAGES], garbage[MAX_PAGES];
	uint32_t table_bytes; /* of each line table */
	unsigned reads;
};

static void put(uint8_t *page, size_t at, uint64_t value, size_t size)
{
	memcpy(page + at, &value, size);
}

static void put_str(const struct pages *pages, uint8_t *page, size_t at, const char *text)
{
	put(page, at, 1, 8);
	put(page, at + pages->layout.str.length, strlen(text), 8);
	put(page, at + pages->layout.str.state, 1 << 2 | 1 << 5 | 1 << 6, 4);
	memcpy(page + at + pages->layout.str.ascii_data, text, strlen(text));
}

/* The code object at 0, its name at 512, its file at 1024, its type at 1536 and its line table at 2048. */
static void make_page(const struct pages *pages, uint64_t number, uint8_t *page)
{
	const struct python_code_layout *code = &pages->layout.code;
	uint64_t address = FIRST + number * PAGE;
	char name[64];

	memset(page, 0, PAGE);
	snprintf(name, sizeof(name), "function %u", (unsigned)number);
	put(page, 0, 1, 8);
	put(page, 8, address + 1536, 8);
	put(page, code->firstlineno, pages->lines[number], 4);
	put(page, code->qualname, pages->garbage[number] ? address + 2048 : address + 512, 8);
	put(page, code->filename, address + 1024, 8);
	put(page, code->linetable, address + 2048, 8);
	put_str(pages, page, 512, name);
	put_str(pages, page, 1024, "file");
	put(page, 1536 + 24, address + 1536 + 32, 8);
	memcpy(page + 1536 + 32, "code", 5);
	put(page, 2048 + pages->layout.bytes.size, pages->table_bytes, 8);
}

static bool read_pages(void *context, uint64_t address, void *to, size_t bytes)
{
	struct pages *pages = context;
	uint64_t number = (address - FIRST) / PAGE, at = (address - FIRST) % PAGE;
	uint8_t page[PAGE];

	pages->reads++;
	if (address < FIRST || number >= MAX_PAGES || pages->unreadable[number])
		return false;
	make_page(pages, number, page);
	if (at + bytes > PAGE)
		return false;
	memcpy(to, page + at, bytes);
	return true;
}

static struct pages *new_pages(void)
{
	struct pages *pages = calloc(1, sizeof(*pages));

	assert_non_null(pages);
	pages->layout = python_code_layout_of(12);
	pages->memory = (struct foreign_memory){ read_pages, pages };
	return pages;
}

static uint64_t address_of(unsigned number)
{
	return FIRST + (uint64_t)number * PAGE;
}

static uint64_t sum_of(struct pages *pages, unsigned number)
{
	uint64_t words[SO_PYTHON_SUM_WORDS];
	uint8_t page[PAGE];

	make_page(pages, number, page);
	memcpy(words, page + pages->layout.walker.code_sum, sizeof(words));
	return so_python_sum((const __u64 *)words, pages->layout.walker.sum_words);
}

static const struct python_code *get(struct python_names *names, struct pages *pages, unsigned number,
				     uint64_t sum, int *why)
{
	pages->reads = 0;
	*why = 1;
	return python_names__get(names, &pages->memory, &pages->layout, address_of(number), sum, why);
}

/* Gets one that can be read; returns whether that took a read. */
static bool get_good(struct python_names *names, struct pages *pages, unsigned number)
{
	int why;
	const struct python_code *code = get(names, pages, number, sum_of(pages, number), &why);
	char name[64];

	snprintf(name, sizeof(name), "function %u", number);
	assert_non_null(code);
	assert_int_equal(why, 1);
	assert_string_equal(code->name, name);
	assert_int_equal(code->first_line, pages->lines[number]);
	return pages->reads > 0;
}

/* How many bytes the cache grows by for one more. */
static size_t entry_bytes(struct pages *pages)
{
	_cleanup_(python_names) struct python_names *names = NULL;
	size_t before;

	assert_int_equal(python_names__new(0, &names), 0);
	before = python_names__stats(names).bytes;
	assert_true(get_good(names, pages, 1000));
	return python_names__stats(names).bytes - before;
}

static void test_read_once(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL;
	struct python_names_stats stats;
	size_t empty;

	assert_int_equal(python_names__new(0, &names), 0);
	empty = python_names__stats(names).bytes;
	assert_true(empty < 4096);
	for (unsigned i = 1000; i < 2000; i++)
		assert_true(get_good(names, pages, i));
	for (unsigned i = 1000; i < 2000; i++)
		assert_false(get_good(names, pages, i));
	/* Also when the memory has gone. */
	memset(pages->unreadable, 1, sizeof(pages->unreadable));
	for (unsigned i = 1000; i < 2000; i++)
		assert_false(get_good(names, pages, i));
	stats = python_names__stats(names);
	assert_int_equal(stats.read, 1000);
	assert_int_equal(stats.stale + stats.unreadable + stats.evicted, 0);
	/* The table of chains doubles while it has fewer than there are entries: from 64 to 1024. */
	memset(pages->unreadable, 0, sizeof(pages->unreadable));
	assert_int_equal(stats.bytes, empty + 1000 * entry_bytes(pages) + (1024 - 64) * sizeof(void *));
}

static void test_failures_are_remembered(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL;
	uint64_t old_sum = sum_of(pages, 1);
	struct python_names_stats stats;
	int why;

	assert_int_equal(python_names__new(0, &names), 0);
	pages->garbage[0] = true;
	for (unsigned i = 0; i < 3; i++) {
		assert_null(get(names, pages, 0, sum_of(pages, 0), &why));
		assert_int_equal(why, -EFAULT);
		assert_int_equal(pages->reads != 0, i == 0);
	}
	/* The address is used again: the old checksum does not fit, the new one does, and both stay apart. */
	pages->lines[1] = 5;
	for (unsigned i = 0; i < 3; i++) {
		assert_null(get(names, pages, 1, old_sum, &why));
		assert_int_equal(why, -ESTALE);
		assert_int_equal(pages->reads != 0, i == 0);
		assert_int_equal(get_good(names, pages, 1), i == 0);
	}
	/* The same checksum elsewhere is something else. */
	for (unsigned i = 2; i < 500; i++) {
		assert_null(get(names, pages, i, old_sum, &why));
		assert_int_not_equal(pages->reads, 0);
	}
	stats = python_names__stats(names);
	assert_int_equal(stats.read, 1);
	assert_int_equal(stats.stale, 1 + 498);
	assert_int_equal(stats.unreadable, 1);
}

/* A read may fail because its process is kept waiting: the next one may succeed. */
static void test_unread_memory_is_read_again(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL;
	uint64_t sum = sum_of(pages, 0);
	size_t empty;
	int why;

	assert_int_equal(python_names__new(0, &names), 0);
	empty = python_names__stats(names).bytes;
	pages->unreadable[0] = true;
	for (unsigned i = 0; i < 3; i++) {
		assert_null(get(names, pages, 0, sum, &why));
		assert_int_equal(why, -EFAULT);
		assert_int_not_equal(pages->reads, 0);
	}
	assert_int_equal(python_names__stats(names).bytes, empty);
	pages->unreadable[0] = false;
	assert_true(get_good(names, pages, 0));
}

static void test_the_one_used_longest_ago_goes(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL, *empty = NULL;
	size_t max_bytes;

	assert_int_equal(python_names__new(0, &empty), 0);
	max_bytes = python_names__stats(empty).bytes + 10 * entry_bytes(pages);
	assert_int_equal(python_names__new(max_bytes, &names), 0);
	for (unsigned i = 1000; i < 1010; i++)
		assert_true(get_good(names, pages, i));
	assert_int_equal(python_names__stats(names).bytes, max_bytes);
	assert_false(get_good(names, pages, 1000));
	assert_false(get_good(names, pages, 1002));
	assert_true(get_good(names, pages, 1010)); /* in the place of 1001 */
	assert_true(get_good(names, pages, 1011)); /* of 1003 */
	assert_int_equal(python_names__stats(names).evicted, 2);
	assert_int_equal(python_names__stats(names).bytes, max_bytes);
	for (unsigned i = 1004; i < 1010; i++)
		assert_false(get_good(names, pages, i));
	assert_false(get_good(names, pages, 1000));
	assert_false(get_good(names, pages, 1002));
	assert_true(get_good(names, pages, 1001));
	assert_true(get_good(names, pages, 1003));
}

static void test_one_larger_than_all(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL;
	size_t small = entry_bytes(pages), empty;

	assert_int_equal(python_names__new(2000, &names), 0);
	empty = python_names__stats(names).bytes;
	assert_true(get_good(names, pages, 1000));
	assert_int_equal(python_names__stats(names).bytes, empty + small);
	pages->table_bytes = 1900;
	assert_true(get_good(names, pages, 1001));
	assert_false(get_good(names, pages, 1001));
	assert_int_equal(python_names__stats(names).bytes, empty + small + 1900);
	pages->table_bytes = 0;
	assert_true(get_good(names, pages, 1002));
	assert_int_equal(python_names__stats(names).bytes, empty + small);
	assert_int_equal(python_names__stats(names).evicted, 2);
}

/* Against a list of the same entries in the order of their use, which knows how many fit. */
static void test_against_a_list(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL;
	unsigned list[100], n = 0, fits, read = 0, evicted = 0, kept = 0;
	size_t small = entry_bytes(pages), empty;

	/* 64 buckets hold 64 entries before they grow. */
	assert_int_equal(python_names__new(0, &names), 0);
	empty = python_names__stats(names).bytes;
	python_names__free(names);
	names = NULL;
	fits = 50;
	assert_int_equal(python_names__new(empty + fits * small + small / 2, &names), 0);
	srand(1);
	for (unsigned step = 0; step < 20000; step++) {
		unsigned number = 1000 + (unsigned)rand() % (step % 1000 < 500 ? 60 : 200), at = 0;

		while (at < n && list[at] != number)
			at++;
		assert_int_equal(get_good(names, pages, number), at == n);
		read += at == n;
		kept += at < n;
		if (at == n && n < fits)
			n++;
		else if (at == n)
			evicted++, at--;
		memmove(list + 1, list, at * sizeof(list[0]));
		list[0] = number;
	}
	assert_true(kept > 1000 && evicted > 1000);
	assert_int_equal(python_names__stats(names).read, read);
	assert_int_equal(python_names__stats(names).evicted, evicted);
	assert_true(python_names__stats(names).bytes <= empty + fits * small + small / 2);
}

/* Garbage without end does not take more than the bound either. */
static void test_garbage_is_bounded(void **state)
{
	_cleanup_free_ struct pages *pages = new_pages();
	_cleanup_(python_names) struct python_names *names = NULL;
	struct python_names_stats stats;
	int why;

	assert_int_equal(python_names__new(100000, &names), 0);
	for (uint64_t i = 1; i <= 100000; i++) {
		assert_null(get(names, pages, 3, i, &why));
		assert_int_equal(why, -ESTALE);
		assert_true(python_names__stats(names).bytes <= 100000);
	}
	stats = python_names__stats(names);
	assert_int_equal(stats.stale, 100000);
	assert_in_range(stats.evicted, 97000, 99999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_once),
		cmocka_unit_test(test_failures_are_remembered),
		cmocka_unit_test(test_unread_memory_is_read_again),
		cmocka_unit_test(test_the_one_used_longest_ago_goes),
		cmocka_unit_test(test_one_larger_than_all),
		cmocka_unit_test(test_against_a_list),
		cmocka_unit_test(test_garbage_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
