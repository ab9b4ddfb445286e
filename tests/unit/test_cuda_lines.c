// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines that come and go, against a plain list of what each was given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/cuda/cuda_lines.h"

static struct so_cuda_line_key key_of(uint32_t n)
{
	return (struct so_cuda_line_key){
		.stack = 1000003ull * (n / 7), .tgid = 1 + n % 7, .tid = n % 7, .api = n % 3
	};
}

static int add(struct cuda_lines *lines, uint32_t n, uint64_t calls, uint64_t now_ns)
{
	const struct so_cuda_line_key key = key_of(n);
	const struct so_cuda_line line = { .calls = calls, .total_ns = 10 * calls, .bytes = 3 * calls };

	return cuda_lines__add(lines, &key, &line, 1, now_ns);
}

/* The line of that key, NULL: there is none. */
static const struct cuda_line *find(const struct cuda_lines *lines, uint32_t n)
{
	const struct so_cuda_line_key key = key_of(n);
	const struct cuda_line *found = NULL;

	for (size_t i = 0; i < lines->n; i++) {
		const struct cuda_line *l = &lines->list[i];

		if (!l->serial || l->stack != key.stack || l->tgid != key.tgid || l->tid != key.tid ||
		    l->api != key.api)
			continue;
		assert_null(found);
		found = l;
	}
	return found;
}

static void test_add(void **state)
{
	struct cuda_lines lines = { 0 };
	const struct so_cuda_line_key key = key_of(1);
	const struct so_cuda_line line = { .calls = 2,
					   .total_ns = 5,
					   .bytes = 8,
					   .seen = 1,
					   .seen_ns = 3,
					   .seen_bytes = 4,
					   .needless = 2,
					   .needless_ns = 4 };

	assert_int_equal(add(&lines, 0, 4, 100), 0);
	assert_int_equal(add(&lines, 1, 1, 100), 0);
	assert_int_equal(add(&lines, 0, 2, 200), 0);
	assert_int_equal(cuda_lines__add(&lines, &key, &line, 2.5, 300), 0);
	assert_int_equal(cuda_lines__count(&lines), 2);
	assert_true(find(&lines, 0)->calls == 6 && find(&lines, 0)->total_ns == 60 &&
		    find(&lines, 0)->bytes == 18);
	assert_int_equal(find(&lines, 0)->latest_ns, 200);
	assert_true(find(&lines, 1)->calls == 6 && find(&lines, 1)->total_ns == 22.5 &&
		    find(&lines, 1)->bytes == 23);
	assert_int_equal(find(&lines, 1)->latest_ns, 300);
	assert_true(find(&lines, 1)->needless == 5 && find(&lines, 1)->needless_ns == 10);
	/* Calls that were seen are no more for standing for others. */
	assert_true(find(&lines, 1)->seen.calls == 1 && find(&lines, 1)->seen.total_ns == 3 &&
		    find(&lines, 1)->seen.bytes == 4);
	assert_true(find(&lines, 0)->serial != find(&lines, 1)->serial);
	cuda_lines__release(&lines);
	assert_null(lines.list);
}

/* The quietest go first, and none that is not quiet; their places are taken by others, which are told apart. */
static void test_forget(void **state)
{
	struct cuda_lines lines = { 0 };
	struct cuda_line before;
	size_t place;

	for (uint32_t n = 0; n < 100; n++)
		assert_int_equal(add(&lines, n, 1, 1000 + n), 0);
	assert_int_equal(add(&lines, 0, 1, 2000), 0);
	assert_int_equal(cuda_lines__forget(&lines, 100, 5000), 0);
	assert_int_equal(cuda_lines__forget(&lines, 70, 5000), 30);
	assert_int_equal(cuda_lines__count(&lines), 70);
	assert_int_equal(lines.n, 100);
	assert_int_equal(lines.forgotten, 30);
	for (uint32_t n = 0; n < 100; n++)
		assert_int_equal(find(&lines, n) != NULL, n == 0 || n > 30);
	assert_int_equal(cuda_lines__forget(&lines, 10, 1050), 20);
	assert_non_null(find(&lines, 51));
	assert_null(find(&lines, 50));
	assert_int_equal(cuda_lines__forget(&lines, 10, 1050), 0);

	place = (size_t)(find(&lines, 99) - lines.list);
	before = lines.list[place];
	for (uint32_t n = 0; n < 51; n++)
		assert_int_equal(add(&lines, n, 5, 3000), 0);
	assert_int_equal(lines.n, 100);
	assert_memory_equal(&lines.list[place], &before, sizeof(before));
	for (uint32_t n = 0; n < 100; n++)
		assert_true(find(&lines, n)->calls == (n == 0 ? 7 : n < 51 ? 5 : 1));
	assert_true(find(&lines, 1)->serial > 100);

	/* All of one time. */
	assert_int_equal(cuda_lines__forget(&lines, 90, 5000), 10);
	assert_int_equal(cuda_lines__forget(&lines, 50, 5000), 90);
	assert_int_equal(cuda_lines__count(&lines), 0);
	for (size_t i = 0; i < lines.n; i++)
		assert_int_equal(lines.list[i].serial, 0);
	cuda_lines__release(&lines);
}

/* As many as there is room for; then room is made. */
static void test_full(void **state)
{
	struct cuda_lines lines = { 0 };

	for (uint32_t n = 0; n < CUDA_LINES_MAX; n++)
		assert_int_equal(add(&lines, n, 1, n), 0);
	assert_int_equal(add(&lines, CUDA_LINES_MAX, 9, CUDA_LINES_MAX), -ENOMEM);
	assert_int_equal(lines.lost, 9);
	assert_int_equal(add(&lines, 5, 1, CUDA_LINES_MAX), 0);
	assert_int_equal(cuda_lines__forget(&lines, CUDA_LINES_MAX / 2, CUDA_LINES_MAX), CUDA_LINES_MAX / 2);
	assert_non_null(find(&lines, 5));
	assert_null(find(&lines, 6));
	for (uint32_t n = 0; n < CUDA_LINES_MAX / 2; n++)
		assert_int_equal(add(&lines, CUDA_LINES_MAX + n, 1, CUDA_LINES_MAX + 1), 0);
	assert_int_equal(lines.n, CUDA_LINES_MAX);
	assert_int_equal(add(&lines, 6, 1, CUDA_LINES_MAX + 1), -ENOMEM);
	assert_int_equal(lines.lost, 10);
	cuda_lines__release(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
